"""``orchestrator certify``: the claims of the paper's own tables, of a confirmation, and what it refuses."""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from optuna.trial import FixedTrial

from orchestrator.claims.cells import cells_experiment, confirmed_cells, published_cells
from orchestrator.claims.certificate import answers_to_claims, fix_questions, forget_questions
from orchestrator.claims.claims import Claims, load_claims
from orchestrator.claims.engine import decide_claims
from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.views.terminal import lines_of
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeat, add_repeats, add_trial, begun, make_experiment, open_test
from tests.support.records import append
from trainables.errors import ConfigError


def test_the_claims_of_the_papers_tables_are_answered_without_training(tmp_path: Path, cli: CommandLine) -> None:
    arguments = ("certify", "ecir-2022", "--published", "--output", tmp_path)
    lines = cli.shows(*arguments).splitlines()
    assert lines[1] == "Of 14 claims 12 hold and 2 were not run here (16 cells)."
    assert any(line.startswith("Claim 9 was not run here: Triplet SH lacks share without gradient") for line in lines)
    folder = tmp_path / "published-ecir-2022"
    page = (folder / "certificate.html").read_text()
    for heading in ("Contributing samples of hinge losses", "Contributing samples of SmoothAP", "change a rank"):
        assert heading.replace("’", "&#39;") in page
    assert "i2t_average_recall" not in page
    assert "rsum: sum of six recalls, 0–600, chance 3.2 or 0.6<" in page, "of 1,000 and of 5,000 test images"

    found = cli.json(*arguments)
    assert found == json.loads((folder / "certificate.json").read_text())
    assert len(found["claims_digest"]) == 64 and found["level"] == 0.05
    by_id = {finding["id"]: finding for finding in found["findings"]}
    beats = by_id["triplet-sh-beats-triplet"]
    assert (beats["answer"], beats["holds_if"][0]["kind"]) == ("holds", "beats")
    assert by_id["thresholds-change-little"]["missing"]
    assert {cell["dataset"] for cell in found["cells"]} == {"flickr30k", "coco"}


def test_a_paper_of_single_runs_says_why_its_claims_were_not_run(tmp_path: Path, cli: CommandLine) -> None:
    said = cli.shows("certify", "universal-weighting", "--published", "--output", tmp_path)
    assert "Of 9 claims 9 were not run here" in said
    assert "Polynomial (self), degree = 2 has a single run of rsum on Flickr30k with SCAN" in said


def test_the_table_of_claims_fits_a_terminal_of_100_columns_with_whole_sentences() -> None:
    claims = load_claims("ecir-2022")
    about, *_ = answers_to_claims(claims, decide_claims(claims, published_cells(claims)), 16)
    lines = [line.plain for line in lines_of(about, 100)]
    table = lines[2 : -len(about.notes)]
    assert max(map(len, table)) <= 100
    said = " ".join(" ".join(line[5:38].split()) for line in table[1:])
    assert all(claim.statement in said for claim in claims.claims)
    assert sum(" holds " in line for line in table) == 12


def test_the_questions_are_fixed_before_training_and_cannot_be_moved(tmp_path: Path) -> None:
    claims = load_claims("ecir-2022")
    experiment = cells_experiment(claims, ["pets"], ["vsepp"], 5, [])
    folder = tmp_path / experiment.name
    ready = fix_questions(claims, experiment, folder)
    content = (folder / "questions.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() in ready.description
    assert fix_questions(claims, experiment, folder).description == ready.description
    assert (folder / "questions.json").read_bytes() == content
    easier = claims.model_copy(update={"level": 0.2})
    with pytest.raises(ConfigError, match="other claims, datasets, models or seeds were fixed there"):
        fix_questions(easier, experiment, folder)
    with pytest.raises(ConfigError, match="other claims"):
        fix_questions(claims, cells_experiment(claims, ["pets"], ["vsepp"], 6, []), folder)
    forget_questions(folder)
    assert not folder.exists()


CLAIMS_FILE = """
name: two
source: A test
experiment: {losses: [nt_xent, triplet_sh], search: {sampler: random, trials: 1}}
claims:
  - id: wins
    number: 1
    statement: NT-Xent wins.
    where: table 1
    holds_if:
      - {kind: beats, loss: nt_xent, against: [triplet_sh], metrics: [rsum]}
"""


def edit_the_claims(claims: Path, folder: Path) -> None:
    claims.write_text(
        CLAIMS_FILE.replace("beats, loss: nt_xent, against: [triplet_sh]", "above, loss: nt_xent, than: 1")
    )


def edit_the_questions(claims: Path, folder: Path) -> None:
    path = folder / "questions.json"
    path.write_text(path.read_text().replace("{", '{"fixed": "2026-01-01T00:00:00Z", ', 1))


def edit_both_and_start_again(claims: Path, folder: Path) -> None:
    edit_the_claims(claims, folder)
    (folder / "questions.json").unlink()
    asked = load_claims(str(claims))
    with begun(folder, fix_questions(asked, cells_experiment(asked, ["pets"], [], 2, []), folder)):
        pass


def add_seeds(claims: Path, folder: Path) -> None:
    with closing(Ledger(folder / "journal.jsonl")) as ledger:
        trials = ledger.history.stage(Stage.SEARCH)
        open_test(ledger, [add_repeat(ledger, trial, 2, 102, 90.0) for trial in trials])


ATTACKS = [edit_the_claims, edit_the_questions, edit_both_and_start_again, add_seeds]


@pytest.mark.parametrize("attack", [None, *ATTACKS])
def test_only_questions_that_the_journal_knew_before_training_are_certified_as_fixed(
    tmp_path: Path, cli: CommandLine, attack: Callable[[Path, Path], None] | None
) -> None:
    claims, folder = tmp_path / "two.yaml", tmp_path / "certify-two"
    claims.write_text(CLAIMS_FILE)
    asked = load_claims(str(claims))
    ready = fix_questions(asked, cells_experiment(asked, ["pets"], [], 2, []), folder)
    with begun(folder, ready) as ledger:
        pairs = [(add_trial(ledger, [10.0], loss=loss), [50.0, 52.0]) for loss in ("nt_xent", "triplet_sh")]
        open_test(ledger, add_repeats(ledger, pairs))
    if attack is not None:
        attack(claims, folder)
    found = cli.json("certify", claims, "--with", "certify-two", "--output", tmp_path)
    said = (folder / "certificate.html").read_text(encoding="utf-8")
    assert ("not before training" in said) == (found["questions"] is None) == (attack is not None)
    if attack is None:
        assert found["questions"]["sha256"] == hashlib.sha256((folder / "questions.json").read_bytes()).hexdigest()
        (start, *_) = (folder / "journal.jsonl").read_text().splitlines()
        date = datetime.fromtimestamp(json.loads(start)["time"], UTC)
        assert found["questions"]["fixed"] == f"{date:%Y-%m-%dT%H:%M:%SZ}"


def test_a_dataset_that_was_fixed_and_left_out_is_missing(tmp_path: Path, cli: CommandLine) -> None:
    """Who stops before the second dataset cannot have the answers of the first one certified."""
    claims, folder = tmp_path / "two.yaml", tmp_path / "certify-two"
    claims.write_text(CLAIMS_FILE)
    asked = load_claims(str(claims))
    with begun(folder, fix_questions(asked, cells_experiment(asked, ["pets", "birds"], [], 2, []), folder)) as ledger:
        pairs = [(add_trial(ledger, [10.0], loss=loss), [50.0, 52.0]) for loss in ("nt_xent", "triplet_sh")]
        open_test(ledger, add_repeats(ledger, pairs))
    found = cli.json("certify", claims, "--with", "certify-two", "--output", tmp_path)
    assert found["questions"] is not None
    (finding,) = found["findings"]
    assert finding["answer"] == "not run here" and "birds" in finding["sentence"]


def test_a_training_without_the_questions_takes_their_date_from_the_certificate(
    tmp_path: Path, cli: CommandLine
) -> None:
    claims, folder = tmp_path / "two.yaml", tmp_path / "certify-two"
    claims.write_text(CLAIMS_FILE)
    asked = load_claims(str(claims))
    with begun(folder, fix_questions(asked, cells_experiment(asked, ["pets"], [], 2, []), folder)):
        pass
    with begun(tmp_path / "before"):
        pass
    answer = ("certify", claims, "--output", tmp_path, "--with", "certify-two")
    assert cli.json(*answer)["questions"] is not None
    assert cli.json(*answer, "--with", "before")["questions"] is None


def test_damaged_questions_are_one_message(tmp_path: Path) -> None:
    claims = load_claims("ecir-2022")
    (tmp_path / "questions.json").write_text("[1, 2")
    with pytest.raises(ConfigError, match=r"questions\.json: is damaged; restore it"):
        fix_questions(claims, cells_experiment(claims, ["pets"], ["vsepp"], 5, []), tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ecir-2022",), "--datasets must name a dataset"),
        (("ecir-2020", "--published"), "did you mean 'ecir-2022'"),
        (("ecir-2022", "--with", "nothing"), "nothing"),
        (("ecir-2022", "--datasets", "pets", "--set", "training.epoch=3"), "training.epoch"),
    ],
)
def test_a_mistake_is_one_message_before_any_work(
    tmp_path: Path, cli: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    assert message in cli.refuses("certify", *arguments, "--output", tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_cells_are_trained_at_the_published_settings_with_fresh_seeds() -> None:
    experiment = cells_experiment(load_claims("ecir-2022"), ["pets"], ["vsepp", "vsrn"], 5, ["training.epochs=2"])
    assert len(experiment.cells()) == 8 and experiment.confirm is not None
    assert (experiment.confirm.seeds, experiment.training.epochs, experiment.training.learning_rate) == (5, 2, 2e-4)
    (smooth,) = {cell.training.batches for cell in experiment.cells() if cell.loss == "smooth_ap"}
    assert smooth == "images"


def about(losses: Sequence[str]) -> Claims:
    """Return claims that need these losses."""
    part = {"kind": "alike", "loss": losses[0], "against": losses, "metrics": ["rsum"], "margin": 1.0}
    claim = {"id": "c", "number": 1, "statement": "s", "where": "w", "holds_if": [part]}
    return validate(Claims, {"name": "p", "source": "s", "claims": [claim]}, "p.yaml")


def test_cells_are_means_over_the_seeds_of_the_published_setting(tmp_path: Path) -> None:
    with begun(tmp_path, make_experiment(losses=["nt_xent"], confirm={"top": 2, "seeds": 3})) as ledger:
        searched = add_trial(ledger, [20.0], params={"temperature": 0.05})
        published = add_trial(ledger, [10.0], params={"temperature": 0.1})
        values = [(searched, [80.0, 81.0, 82.0]), (published, [50.0, 52.0, 57.0])]
        open_test(ledger, add_repeats(ledger, values))
    names = ["nt_xent", "nt_xent(best)", "nt_xent(temperature=0.05)", "nt_xent(temperature=0.2)"]
    cell = confirmed_cells([ledger.history], about(names))["pets", "vsepp"]
    measure = cell["nt_xent"].measure("rsum")
    assert (measure.mean, measure.seeds) == (53.0, 3)
    assert measure.sample_std == pytest.approx(3.6055512)
    assert cell["nt_xent(best)"].mean("rsum") == cell["nt_xent(temperature=0.05)"].mean("rsum") == 81.0
    assert "nt_xent(temperature=0.2)" not in cell
    assert [cell[name].trials for name in names[:3]] == [None, 2, 1]


def test_a_certificate_says_of_how_many_trials_its_settings_are_the_best(tmp_path: Path, cli: CommandLine) -> None:
    experiment = make_experiment(
        name="tiny", losses=["triplet_sh"], confirm={"top": 1, "seeds": 2, "published": "best"}
    )
    with begun(tmp_path / "tiny", experiment) as ledger:
        trials = [
            add_trial(ledger, [value], loss="triplet_sh", params={"margin": value / 100}) for value in (10.0, 60.0)
        ]
        open_test(ledger, add_repeats(ledger, [(trials[1], [50.0, 52.0])]))
    said = " ".join(cli.shows("certify", "universal-weighting", "--with", "tiny", "--output", tmp_path).split())
    assert "One search chose the setting of 1 of 1 cell, the best of 2 trials." in said
    assert "The answers are about these settings: another search may find others." in said


def confirmed(folder: Path, dataset: str, loss: str, digest: str) -> History:
    experiment = make_experiment(name=folder.name, datasets=[dataset], losses=[loss], confirm={"top": 1, "seeds": 2})
    with begun(folder, experiment, data={f"{dataset}:global": digest}) as ledger:
        repeats = add_repeats(ledger, [(add_trial(ledger, [10.0], loss=loss, dataset=dataset), [50.0, 52.0])])
        append(ledger, "test_opened", dataset=dataset, trials=[trial.id for trial in repeats])
        for trial in repeats:
            append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": trial.best_value})
    return ledger.history


def test_losses_of_one_dataset_meet_in_a_cell_wherever_it_lies_and_those_of_other_data_are_refused(
    tmp_path: Path,
) -> None:
    first = confirmed(tmp_path / "first", "pets", "nt_xent", "d1")
    other = confirmed(tmp_path / "other", "/elsewhere/pets", "triplet_sh", "d1")
    losses = ["nt_xent", "triplet_sh"]
    assert {place: list(cell) for place, cell in confirmed_cells([first, other], about(losses)).items()} == {
        ("pets", "vsepp"): losses
    }
    changed = confirmed(tmp_path / "changed", "/elsewhere/pets", "triplet_sh", "d2")
    with pytest.raises(ConfigError, match="changed: its data of pets are not those of first"):
        confirmed_cells([first, changed], about(losses))


def test_a_share_of_captions_without_gradient_is_of_all_captions_of_a_batch(tmp_path: Path) -> None:
    training = {"batches": "images", "captions_per_image": 5, "batch_size": 16}
    experiment = make_experiment(losses=["nt_xent"], training=training, confirm={"top": 1, "seeds": 2})
    with begun(tmp_path, experiment) as ledger:
        (cell,) = experiment.cells()
        trial = ledger.create(cell.name, 0, {"temperature": 0.1}, experiment.trial_config(cell, {"temperature": 0.1}))
        ledger.report(trial, 1, {"val/rsum": 10.0}, TrialState.FINISHED)
        repeats = add_repeats(ledger, [(trial, [50.0, 52.0])])
        open_test(ledger, repeats)
    for repeat in repeats:
        counts = {"cocos/i2t_queries_without_gradient": 4.0, "cocos/t2i_queries_without_gradient": 20.0}
        repeat.epochs[1] = repeat.epochs[1] | counts
    measures = confirmed_cells([ledger.history], about(["nt_xent"]))["pets", "vsepp"]["nt_xent"]
    assert {way: measures.mean(f"{way}_share_without_gradient") for way in ("i2t", "t2i")} == {"i2t": 0.25, "t2i": 0.25}


def test_epochs_until_a_training_is_near_its_best_are_counted_for_each_seed(tmp_path: Path) -> None:
    with begun(tmp_path, make_experiment(losses=["nt_xent"], confirm={"top": 1, "seeds": 2})) as ledger:
        repeats = add_repeats(ledger, [(add_trial(ledger, [10.0]), [50.0, 52.0])])
        open_test(ledger, repeats)
    for repeat, curve in zip(repeats, ([60.0, 94.0, 100.0, 90.0], [50.0, 60.0, 95.1, 100.0]), strict=True):
        first = dict(repeat.epochs[1])
        repeat.epochs.update({epoch: first | {"val/rsum": value} for epoch, value in enumerate(curve, start=1)})
    cell = confirmed_cells([ledger.history], about(["nt_xent"]))["pets", "vsepp"]["nt_xent"]
    assert cell.sample("epochs_to_95").tolist() == [3.0, 3.0]
    repeats[0].epochs[2] = repeats[0].epochs[2] | {"val/rsum": 95.0}
    cell = confirmed_cells([ledger.history], about(["nt_xent"]))["pets", "vsepp"]["nt_xent"]
    assert cell.sample("epochs_to_95").tolist() == [2.0, 3.0]


def test_a_setting_is_found_where_the_search_chose_the_loss(tmp_path: Path) -> None:
    """Samplers name a degree after its loss, and the loss itself has coefficients in its place."""
    space = {"polynomial_self": {"degree": {"values": [1, 2]}}}
    search = {"sampler": "random", "trials": 4, "loss": "choose", "space": space}
    experiment = make_experiment(
        losses=["polynomial_self", "triplet_sh"], search=search, confirm={"top": 2, "seeds": 3}
    )
    (cell,) = experiment.cells()
    with begun(tmp_path, experiment) as ledger:
        params = next(iter(cell.space.published_points()))
        config = experiment.suggested(cell, cell.space.suggest(FixedTrial(params)))
        trial = ledger.create(cell.name, 0, params, config)
        ledger.report(trial, 1, {"val/rsum": 10.0}, TrialState.FINISHED)
        open_test(ledger, add_repeats(ledger, [(trial, [50.0, 52.0, 57.0])]))
    names = ["polynomial_self(degree=1)", "polynomial_self(degree=2)"]
    assert list(confirmed_cells([ledger.history], about(names))["pets", "vsepp"]) == names[:1]


def test_a_short_training_is_named_below_the_answers(tmp_path: Path, cli: CommandLine) -> None:
    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [10.0, 40.0, 60.0, 80.0, 100.0], loss="triplet_sh")
    said = cli.shows("certify", "ecir-2022", "--with", "tiny", "--output", tmp_path)
    rise = "Rise of val rsum an epoch at the full learning rate: Triplet SH with VSE++ 20 %."
    assert f"pets: {rise}" in " ".join(said.split())
    page = (tmp_path / "certify-ecir-2022" / "certificate.html").read_text(encoding="utf-8")
    assert rise in page and page.count("rsum: sum of six recalls, 0–600") == 1


def test_claims_without_a_confirmation_get_one_and_another_value_is_refused() -> None:
    claims = load_claims("wsabie")

    def experiment(confirm: object) -> Experiment:
        changed = claims.model_copy(update={"experiment": {**claims.experiment, "confirm": confirm}})
        return cells_experiment(changed, ["pets"], [], 3, [])

    made = experiment(None).confirm
    assert made is not None and (made.top, made.published, made.seeds) == (1, "each", 3)
    with pytest.raises(ConfigError, match="confirm: should be an object, got 3"):
        experiment(3)
