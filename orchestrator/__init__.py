"""How thousands of trials run: search, tracking and verdicts. The only package that imports Ray, Optuna and MLflow.

    cli.py        the commands, and how an error becomes an exit code
    commands/     parse, call one function, print
    regression/   reruns of baselines beside accepted ones
    search/       an experiment from its start to its winners, and how the experiment stands
    doctor/       what is wrong with a machine, or with an experiment
    extraction/   features from pictures, here or on Ray workers
    tracking/     MLflow, kept in step with the journal
    tuner/        trials on Ray
    forecast/     what a search would take
    report/       one HTML page
    tables/       the result tables in six formats
    winners/      what becomes of selected trials: test split, weights, champion
    machines/     which machines there are, and what a trial gets of them
    results/      from trials to candidates, verdicts, winners and sentences
    studies/      which trial comes next: Optuna
    workload/     what runs in a trial: the door to ``trainables``
    experiment/   what is asked for, checked as a whole
    storage/      bytes that outlive a machine
    journal/      what happened, and who may write it down
    reference/    the published tables
    text/         how strings, numbers and addresses are shown

A room imports rooms below it, never above: ``docs/architecture.md`` and ``tests/test_architecture.py``.
"""
