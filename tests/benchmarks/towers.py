"""What fine-tuning a CLIP costs: time of a step, and memory of activations, whole or by LoRA, with micro-batches.

    python -m tests.benchmarks gpu --towers [--smoke]

A CLIP of the size of ViT-B/32 with random weights, or with `--smoke` a tiny one on a CPU, is trained on generated
pictures. Memory is what the GPU's allocator had at most, or on a CPU the bytes that are kept for the backward pass.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from tests.benchmarks.rows import Row
from tests.benchmarks.timing import alternate
from trainables.config import Precision, TrainingConfig, TrialConfig
from trainables.data.dataset import Dataset, load_dataset
from trainables.data.scenes.generate import generate_scenes
from trainables.seeding import choose_device
from trainables.trial import Trial

VIT_B_32 = {
    "embed_dim": 512,
    "vision_cfg": {"image_size": 224, "layers": 12, "width": 768, "patch_size": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12},
}
TINY = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "layers": 4, "width": 128, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 4},
}
WAYS: dict[str, tuple[str, Precision]] = {
    "whole": ("whole", "float32"),
    "whole in bf16": ("whole", "bf16"),
    "last blocks in bf16": ("blocks", "bf16"),
    "LoRA in bf16": ("lora", "bf16"),
}
"""Name -> what is trained, and the precision."""


def run(options: argparse.Namespace) -> Iterator[Row]:
    device = torch.device("cpu") if options.smoke else choose_device("cuda")
    config, images, batch, part = (TINY, 80, 64, 16) if options.smoke else (VIT_B_32, 400, 256, 64)
    with TemporaryDirectory() as name:
        folder = Path(name)
        generate_scenes(folder / "scenes", images=images, seed=0)
        data = load_dataset("scenes", folder, features="pixels")
        encoder = random_clip(folder / "encoder", config)
        for way, (trained, precision) in WAYS.items():
            training = TrainingConfig(batch_size=batch, precision=precision, learning_rate=1e-5)
            whole = TrialConfig(
                dataset="scenes",
                model="clip",
                loss="nt_xent",
                model_parameters={"encoder": str(encoder), "trained": trained},
                training=training,
            )
            in_parts = replace(whole, training=replace(training, micro_batch=part))
            yield from compare(f"clip, {way}", whole, in_parts, data, device)


def compare(name: str, whole: TrialConfig, in_parts: TrialConfig, data: Dataset, device: torch.device) -> Iterator[Row]:
    trials = {"whole": Trial(whole, data, device), "parts": Trial(in_parts, data, device)}
    peaks = {way: peak_of(partial(step, trial), device) / 2**20 for way, trial in trials.items()}
    seconds = alternate({way: partial(step, trial) for way, trial in trials.items()}, 3)
    label = f"{in_parts.training.micro_batch} of {whole.training.batch_size} at a time"
    other = 1000 * seconds["parts"]
    yield Row(f"{name}: a step", "ms", 1000 * seconds["whole"], other, label)
    yield Row("  memory of activations", "MiB", peaks["whole"], peaks["parts"], label)


def step(trial: Trial) -> None:
    """Take one step, pictures included."""
    trial.epoch = 0
    trial.begin_epoch()
    trial.train(1)


def peak_of(work: Callable[[], None], device: torch.device) -> int:
    """Return the most bytes that a work has on a device at a time beyond what is there before it."""
    if device.type == "cuda":
        work()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    kept = Kept()
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda held: held.tensor):
        work()
    return kept.peak


class Kept:
    """Counts the bytes of the tensors that are kept for a backward pass; views of one storage count once each."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def pack(self, tensor: Tensor) -> "Held":
        # A weight lies in memory in any case.
        size = 0 if tensor.requires_grad and tensor.is_leaf else tensor.numel() * tensor.element_size()
        self.now += size
        self.peak = max(self.peak, self.now)
        return Held(self, tensor, size)


class Held:
    def __init__(self, kept: Kept, tensor: Tensor, size: int) -> None:
        self.kept, self.tensor, self.size = kept, tensor, size

    def __del__(self) -> None:
        self.kept.now -= self.size


def random_clip(folder: Path, config: dict[str, object]) -> Path:
    """Write the folder of a CLIP of open_clip with random weights."""
    import open_clip
    from safetensors.torch import save_file

    folder.mkdir()
    torch.manual_seed(0)
    model = open_clip.model.CLIP(**config)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))
    return folder
