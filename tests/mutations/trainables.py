"""Faults of data, models, training, evaluation and checkpoints."""

from tests.mutations.mutation import Mutation

MUTATIONS = (
    Mutation(
        name="a checkpoint is always evaluated on val",
        file="trainables/evaluation.py",
        old="data.splits[split]",
        new='data.splits["val"]',
        tests="tests/trainables/test_evaluation.py::test_a_checkpoint_is_evaluated_on_the_split_that_is_named",
    ),
    Mutation(
        name="evaluation is in training mode",
        file="trainables/evaluation.py",
        old="    model.eval()\n",
        new="",
        tests="tests/trainables/test_evaluation.py::test_evaluation_is_in_eval_mode_and_leaves_the_model_as_it_was",
    ),
    Mutation(
        name="evaluation leaves the model in eval mode",
        file="trainables/evaluation.py",
        old="        model.train(was_training)",
        new="        pass",
        tests="tests/trainables/test_evaluation.py::test_evaluation_is_in_eval_mode_and_leaves_the_model_as_it_was",
    ),
    Mutation(
        name="an epoch is evaluated on test",
        file="trainables/trial.py",
        old='ResidentSplit(data.splits["val"]',
        new='ResidentSplit(data.splits["test"]',
        tests="tests/trainables/test_evaluation.py::test_an_epoch_reports_the_metrics_of_val_and_trains_on_train",
    ),
    Mutation(
        name="a trial trains on val",
        file="trainables/trial.py",
        old='ResidentSplit(data.splits["train"]',
        new='ResidentSplit(data.splits["val"]',
        tests="tests/trainables/test_evaluation.py::test_an_epoch_reports_the_metrics_of_val_and_trains_on_train",
    ),
    Mutation(
        name="augmented views are the same in every epoch",
        file="trainables/trial.py",
        old='"views", self.epoch)',
        new='"views")',
        tests="tests/trainables/data/test_views.py::test_each_epoch_of_a_trial_draws_views_anew_and_each_trial_of_a_seed_the_same",
    ),
    Mutation(
        name="of equally good epochs the last is the best",
        file="trainables/trial.py",
        old="if value > self.best_value",
        new="if value >= self.best_value",
        tests="tests/trainables/test_trial.py::test_of_epochs_that_are_equally_good_the_first_is_kept",
    ),
    Mutation(
        name="norm_before_reasoning is ignored",
        file="trainables/models/region_reasoning.py",
        old="        if self.norm_before_reasoning:\n",
        new="        if True:\n",
        tests="tests/trainables/models/test_region_reasoning.py",
    ),
    Mutation(
        name="bound of VSE++'s projection without the embedding size",
        file="trainables/models/vsepp.py",
        old="sqrt(image_size + embedding_size)",
        new="sqrt(image_size)",
        tests="tests/trainables/models/test_initial_values.py",
    ),
    Mutation(
        name="bound of VSRN's projection without the joint size",
        file="trainables/models/region_reasoning.py",
        old="sqrt(region_size + size)",
        new="sqrt(region_size)",
        tests="tests/trainables/models/test_initial_values.py",
    ),
    Mutation(
        name="bound of the words' embedding ten times as wide",
        file="trainables/models/text_encoder.py",
        old="-0.1, 0.1",
        new="-1.0, 1.0",
        tests="tests/trainables/models/test_initial_values.py",
    ),
)
