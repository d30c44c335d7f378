"""The static step beside the plain step, to the last bit, and what decides whether a graph replays it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from tests.trainables.runs import resumed
from tests.trainables.tiny import PLAIN_LOSSES, suited, tiny_config, tiny_dataset
from trainables import static_steps
from trainables.bank import make_bank
from trainables.capturable import OBSTACLES, Parts, find_obstacle
from trainables.config import PIXELS, Change, TrialConfig
from trainables.data import length_profile
from trainables.data.batches import Batch
from trainables.data.length_profile import LengthProfile
from trainables.model_parameters import FEATURES
from trainables.models import MODELS
from trainables.static_steps import UNEQUAL, CudaGraph
from trainables.training_steps import finish, train_epoch
from trainables.trial import Trial, run_trial

CPU = torch.device("cpu")
DATA = tiny_dataset(images=18)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def some_batches_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that some of the few batches here do not fit."""
    monkeypatch.setattr(length_profile, "SHARE", 0.6)


def config(loss: str = "nt_xent", model: str = "vsepp", **rest: Any) -> TrialConfig:
    parts = {name: rest.pop(name) for name in ("loss_parameters", "model_parameters", "schedule") if name in rest}
    settings = {"epochs": 1, "batch_size": 8, "embedding_size": 8, "word_size": 8, "graph": "on", **rest}
    return replace(tiny_config(**settings), model=model, loss=loss, **parts)


def plain(each: TrialConfig) -> TrialConfig:
    return replace(each, training=replace(each.training, graph="off"))


def plain_epoch(trial: Trial, *, profiled: bool = True) -> float:
    """Train an epoch by plain steps on fresh tensors; captions are padded to the profile where they fit it."""
    training = trial.config.training
    torch.manual_seed(0)
    captions = trial.train_split.lengths
    has_words = trial.config.model != "head"
    profile = LengthProfile.of_split(captions, training.pairs, CPU) if has_words and profiled else None

    def batches() -> Iterator[Batch]:
        for batch in trial.batches():
            full = len(batch.lengths) == training.pairs
            if profile is not None and full and bool(profile.fits(batch.lengths)):
                tokens = pad(batch.tokens, (0, profile.longest - batch.tokens.shape[1]))
                batch = replace(batch, tokens=tokens, lengths=profile.lay(batch.lengths))
            if full and profiled and training.duplicates == "mask" and batch.ignore is None:
                # A static batch always has the mask; sums of SmoothAP round otherwise with one of nothing.
                batch = replace(batch, ignore=torch.zeros_like(batch.positives))
            yield batch

    clip = training.gradient_clip
    arguments = trial.model, trial.loss, trial.optimizer, batches(), clip, 1, trial.learned, None, trial.average
    return finish(train_epoch(*arguments, make_bank(training.bank, trial.model)))


def begun(each: TrialConfig) -> Trial:
    trial = Trial(each, suited(DATA, each), CPU)
    trial.begin_epoch()
    return trial


def static_epoch(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr("trainables.trial.seed_torch", lambda *_: torch.manual_seed(0))
    loss = trial.train()
    assert trial.static_steps is not None
    return loss


def state_of(trial: Trial) -> list[Tensor]:
    """Weights, moments, learned numbers and averages."""
    optimizers = [trial.optimizer, *trial.learned.optimizers.values()]
    moments = [value for optimizer in optimizers for state in optimizer.state.values() for value in state.values()]
    average = [] if trial.average is None else list(trial.average.weights.values())
    return [*trial.model.state_dict().values(), *moments, *trial.learned.raw.values(), *average]


MEAN, MAX = {"pooling": "mean"}, {"pooling": "max"}
TRAININGS = {
    **{loss: config(loss) for loss in PLAIN_LOSSES},
    "warp with a bank": config("warp", "wsabie", bank=20),
    "with a bank": config(bank=20),
    "learned": config("sigmoid", loss_parameters={"temperature": "learned", "bias": "learned"}),
    "learned, head": config(model="head", loss_parameters={"temperature": "learned"}),
    "two hardest": config("triplet", loss_parameters={"negatives": 2}),
    **{f"vsepp, {pooling['pooling']}": config(model="vsepp", model_parameters=pooling) for pooling in (MEAN, MAX)},
    **{model: config(model=model) for model in ("vsrn", "wsabie", "head")},
    "sgd": config(optimizer="sgd", learning_rate=1e-3),
    "weight decay": config(weight_decay=0.1, weight_decay_of="matrices", gradient_clip=None),
    "average": config(weight_average=0.9, learning_rate_schedule="cosine", warmup_epochs=1),
    "images": config(batches="images", batch_size=4, captions_per_image=2),
    "negatives": config(duplicates="negatives"),
}


@pytest.mark.parametrize("each", [pytest.param(value, id=name) for name, value in TRAININGS.items()])
def test_an_epoch_of_static_steps_is_that_of_plain_steps_to_the_last_bit(
    each: TrialConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = begun(each), begun(plain(each))
    assert static_epoch(one, monkeypatch) == plain_epoch(other)
    pairs = list(zip(state_of(one), state_of(other), strict=True))
    assert pairs and all(torch.equal(mine, theirs) for mine, theirs in pairs)
    # Afterwards the optimiser has its own rates again, for a checkpoint and for a stack.
    assert [group["lr"] for group in one.optimizer.param_groups] == [g["lr"] for g in other.optimizer.param_groups]


@pytest.mark.parametrize("model", ["vsepp", "vsrn", "wsabie", "head"])
def test_static_steps_are_those_without_a_profile(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit where no GRU has rows of padding, else up to the rounding of its sums."""
    each = config("warp", model)
    one, other = begun(each), begun(plain(each))
    losses = static_epoch(one, monkeypatch), plain_epoch(other, profiled=False)
    if model in ("wsabie", "head"):
        assert losses[0] == losses[1]
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(state_of(one), state_of(other), strict=True))
    else:
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_some_batches_fit_the_profile_and_some_do_not() -> None:
    """Otherwise the tests above would see one kind alone."""
    trial = begun(config())
    profile = LengthProfile.of_split(trial.train_split.lengths, 8, CPU)
    full = [batch.lengths for batch in trial.batches() if len(batch.lengths) == 8]
    assert {bool(profile.fits(lengths)) for lengths in full} == {True, False}


def test_a_profile_fits_the_share_of_batches_that_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length_profile, "SHARE", 0.99)
    random = torch.Generator().manual_seed(5)
    lengths = torch.randint(3, 20, (2000,), generator=random)
    profile = LengthProfile.of_split(lengths, 16, CPU)
    drawn = torch.stack([lengths[torch.randperm(2000, generator=random)[:16]] for _ in range(500)])
    assert float(profile.fits(drawn).double().mean()) > 0.96
    packed, longest = float(drawn.sum(1).double().mean()), 16 * 19
    assert packed < int(profile.limits.sum()) < longest
    assert profile.limits.tolist() == sorted(profile.limits.tolist(), reverse=True)


class RecordedGraph:
    """Stands in for a CUDA graph: replaying calls the function that was captured."""

    def __init__(self, trial: Trial | None = None) -> None:
        self.trial, self.replayed = trial, 0
        self.work: Callable[[], None] = lambda: None

    def capture(self, work: Callable[[], None]) -> None:
        self.work = work

    def replay(self) -> None:
        self.replayed += 1
        self.work()


class FailingGraph(RecordedGraph):
    def capture(self, work: Callable[[], None]) -> None:
        work()  # What a failed capture may have done is undone.
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile with TORCH_USE_CUDA")


class DifferingGraph(RecordedGraph):
    """Changes a bit of the weights at the replay of this number, and at all later ones."""

    begins = 1

    def replay(self) -> None:
        super().replay()
        if self.replayed >= self.begins and self.trial is not None:
            with torch.no_grad():
                first = next(self.trial.model.parameters())
                first.view(torch.int32).view(-1)[0] += 1


def with_graphs(each: TrialConfig, kind: type[RecordedGraph] = RecordedGraph) -> tuple[Trial, list[RecordedGraph]]:
    """Return a trial whose static steps are given graphs of a kind, and the graphs that were made so far."""
    trial, made = Trial(each, suited(DATA, each), CPU), []

    def make() -> RecordedGraph:
        made.append(kind(trial))
        return made[-1]

    trial.static_steps = static_steps.StaticSteps(trial.model, trial.train_split, make)
    return trial, made


def epochs(trial: Trial, count: int) -> list[float]:
    return [trial.run_epoch().metrics["train/loss"] for _ in range(count)]


def agrees_with_uncaptured(trial: Trial, each: TrialConfig, count: int = 2) -> None:
    other = Trial(each, suited(DATA, each), CPU)
    assert epochs(trial, count) == epochs(other, count)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(state_of(trial), state_of(other), strict=True))


@pytest.mark.parametrize(
    "each",
    [
        config("warp", epochs=2),
        config("warp", "wsabie", bank=20, epochs=2),
        config("sigmoid", "head", loss_parameters={"temperature": "learned"}, weight_average=0.9, epochs=2),
        config(cocos_steps=3, epochs=2),
        config(model="vsrn", epochs=2),
    ],
    ids=["draws", "bank", "learned", "watched", "batch norm"],
)
def test_a_replayed_training_is_the_uncaptured_one_to_the_last_bit(each: TrialConfig) -> None:
    trial, made = with_graphs(each)
    agrees_with_uncaptured(trial, each)
    assert trial.static_steps is not None and trial.static_steps.replays > 0
    assert trial.not_replayed is None and len(made) == 1


def test_steps_that_no_graph_can_take_are_taken_without_it() -> None:
    """The first full batch makes the moments, some do not fit the profile; a bank fills, and COCOS looks at steps."""
    counts = []
    for each in (config("warp"), config("warp", bank=20), config("warp", cocos_steps=4)):
        trial, _ = with_graphs(each)
        trial.run_epoch()
        assert trial.static_steps is not None
        counts.append(trial.static_steps.replays)
    assert 0 < counts[1] < counts[0] and 0 < counts[2] < counts[0] < 11


def test_a_failed_capture_trains_on_and_says_why() -> None:
    each = config("warp", epochs=2)
    trial, made = with_graphs(each, FailingGraph)
    first = epochs(trial, 1)
    other = Trial(each, suited(DATA, each), CPU)
    assert first == epochs(other, 1) and len(made) == 1
    assert trial.not_replayed == (
        "a step could not be captured: CUDA error: operation not permitted when stream is capturing"
    )
    # The next epochs take today's path.
    assert epochs(trial, 1) and trial.static_steps is not None and trial.static_steps.replays == 0


class RefusingCuda:
    """Stands in for what ``CudaGraph`` calls of ``torch.cuda``; the call of a name, or a later one of it, raises."""

    def __init__(self, refused: str, times: int = 0) -> None:
        self._refused, self._left, self._work = refused, times, lambda: None

    def call(self, name: str) -> None:
        if name == self._refused:
            self._left -= 1
            if self._left < 0:
                raise torch.OutOfMemoryError(f"CUDA error: {name} is refused\nCompile with TORCH_USE_CUDA_DSA")

    @contextmanager
    def captured(self, graph: object, **options: object) -> Iterator[None]:
        assert options["capture_error_mode"] == "thread_local"
        self.call("begin")
        yield
        self.call("end")

    def made(self, name: str) -> Callable[..., Any]:
        def make(*arguments: object) -> Any:
            self.call(name)
            return SimpleNamespace(replay=self.replay, cuda_stream=0)

        return make

    def replay(self) -> None:
        self.call("replay")
        self._work()

    def in_force(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("CUDAGraph", "graph_pool_handle", "Stream", "current_stream"):
            monkeypatch.setattr(torch.cuda, name, self.made(name))
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(torch.cuda, "graph", self.captured)
        monkeypatch.setattr(static_steps, "_POOLS", {})
        capture = CudaGraph.capture

        def remember(graph: CudaGraph, work: Callable[[], None]) -> None:
            self._work = work
            capture(graph, work)

        monkeypatch.setattr(CudaGraph, "capture", remember)


REFUSED_CALLS = [
    *((name, 0, "captured") for name in ("CUDAGraph", "current_stream", "graph_pool_handle", "Stream")),
    *((name, 0, "captured") for name in ("begin", "end", "replay")),
    *(("replay", times, said) for times, said in ((2, "captured"), (3, "replayed"), (6, "replayed"), (10, "checked"))),
]


@pytest.mark.parametrize(("name", "times", "said"), REFUSED_CALLS)
def test_whatever_call_is_refused_the_trial_trains_on_and_says_why(
    name: str, times: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = config("warp", "wsabie", epochs=3)
    RefusingCuda(name, times).in_force(monkeypatch)
    trial = Trial(each, suited(DATA, each), CPU)
    trial.static_steps = static_steps.StaticSteps(trial.model, trial.train_split, partial(CudaGraph, CPU))
    agrees_with_uncaptured(trial, each, 3)
    assert trial.not_replayed == f"a step could not be {said}: CUDA error: {name} is refused"


@pytest.mark.parametrize(("begins", "replays"), [(1, 0), (2, 0), (3, 0)])
def test_a_graph_that_differs_in_one_bit_is_not_used(begins: int, replays: int) -> None:
    each = config("warp")
    kind = type("Differing", (DifferingGraph,), {"begins": begins})
    trial, _ = with_graphs(each, kind)
    agrees_with_uncaptured(trial, each, 1)
    assert trial.not_replayed == UNEQUAL
    assert trial.static_steps is not None and trial.static_steps.replays == replays


def test_a_graph_is_checked_again_in_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    each = config("warp", epochs=3)
    trial, made = with_graphs(each, DifferingGraph)
    monkeypatch.setattr(DifferingGraph, "begins", 10**6)
    epochs(trial, 1)
    assert trial.static_steps is not None
    before = trial.static_steps.replays
    assert before > 0 and trial.not_replayed is None
    monkeypatch.setattr(DifferingGraph, "begins", 0)
    other = Trial(each, suited(DATA, each), CPU)
    assert epochs(trial, 1) == epochs(other, 2)[1:]
    assert trial.not_replayed == UNEQUAL and trial.static_steps.replays == before and len(made) == 1


def test_other_settings_and_other_addresses_are_captured_again() -> None:
    change = Change(epoch=3, training={"gradient_clip": 0.5})
    trial, made = with_graphs(config("warp", epochs=4, schedule=(change,)))
    epochs(trial, 2)
    assert len(made) == 1
    epochs(trial, 1)
    assert len(made) == 2
    for parameter in trial.model.parameters():
        parameter.data = parameter.data.clone()
    epochs(trial, 1)
    assert len(made) == 3


@pytest.mark.parametrize("loss", ["warp", "triplet_sh"])
def test_a_resumed_trial_resumes_to_the_bit(loss: str, tmp_path: Any) -> None:
    resumed(config(loss, "wsabie", epochs=3), suited(DATA, config(loss, "wsabie")), tmp_path, 2)


RAGGED = tiny_dataset(images=18, captions_per_image=(2, 5))
REFUSED = {
    "captions by lengths": (config(model="scan"), DATA),
    "gpo": (config(model="vsepp", model_parameters={"pooling": "gpo"}), DATA),
    "buckets": (config(length_buckets=3), DATA),
    "ragged": (config(batches="images", batch_size=4), RAGGED),
    "meta-step": (config("meta_weights", "head"), DATA),
    "no full batch": (config(batch_size=512), DATA),
}


@pytest.mark.parametrize(("each", "data"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_captured_is_trained_as_ever_and_says_why(each: TrialConfig, data: Any) -> None:
    data = suited(data, each)
    trial = Trial(each, data, CPU)
    loss = trial.run_epoch().metrics["train/loss"]
    assert trial.static_steps is None
    assert trial.not_replayed in {obstacle.reason for obstacle in OBSTACLES}
    assert loss == next(run_trial(plain(each), data, device="cpu")).metrics["train/loss"]


def test_auto_is_off_on_a_cpu() -> None:
    each = config(graph="auto")
    trial = Trial(each, suited(DATA, each), CPU)
    trial.run_epoch()
    assert trial.static_steps is None and trial.not_replayed is None


def test_every_model_has_a_static_step_or_a_reason() -> None:
    static = {each.model for each in TRAININGS.values()}
    for name in (name for name in MODELS if FEATURES[name] != PIXELS):
        each = config(model=name, embedding_size=16)
        trial = Trial(each, suited(DATA, each), CPU)
        found = find_obstacle(Parts(trial.model, trial.loss, trial.train_split, each.training))
        assert (found is None) == (name in static)


def test_the_documents_have_the_table_of_what_is_not_captured() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/graphs.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| ")][1:] == [
        f"| {obstacle.what} | {obstacle.reason} |" for obstacle in OBSTACLES
    ]
