"""A GPU that is none: tensors say ``cuda:0``, are computed on the CPU, and refuse what a real GPU refuses.

PyTorch's own FakeTensorMode computes no values, so that a batch whose length depends on its captions cannot be made in
it, and its backward pass on CUDA needs a driver. Here a tensor "on the GPU" holds a CPU tensor. Each operation is
looked at: a tensor of the CPU with one of the GPU is an error, but where CUDA takes both (copies, scalars, indices). So
a tensor on the wrong device fails as it would there, and what is right gives the numbers of the CPU.

What only a GPU can show stays open: kernels, their precision and determinism, autocast to bf16, memory and speed.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map

GPU = torch.device("cuda", 0)

MIXING = frozenset(
    {
        "aten::copy_",
        "aten::_to_copy",
        # Indices may be on the CPU where what they index is on the GPU.
        "aten::index.Tensor",
        "aten::index_put_",
        "aten::index_put",
        "aten::_index_put_impl_",
        # Sizes of batches must be on the CPU.
        "aten::gru.data",
    }
)
"""Operations that take tensors of both devices."""


class RepeatedStep:
    """Stands in for a CUDA graph: a replay calls the function that was captured."""

    def __init__(self, device: torch.device) -> None:
        self.work: Callable[[], None] = lambda: None

    def capture(self, work: Callable[[], None]) -> None:
        self.work = work

    def replay(self) -> None:
        self.work()


FREE = 8 << 30
"""Bytes of memory that the GPU claims to have free."""


class GpuTensor(Tensor):
    """A tensor that says it is on the GPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, requires_grad: bool = False) -> "GpuTensor":
        """Wrap values; what is already on the GPU is refused, for it would be counted twice."""
        assert not isinstance(held, GpuTensor)
        # A tensor of inference mode could not be a view of a parameter.
        with torch.inference_mode(False):
            wrapped: GpuTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls,
                held.size(),
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                layout=held.layout,
                requires_grad=requires_grad,
            )
        wrapped.held = held
        return wrapped

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The values without their history, in the same memory; setting them puts other memory in their place."""
        return GpuTensor(self.held.detach())

    @data.setter
    def data(self, other: "GpuTensor") -> None:
        assert other.shape == self.shape
        self.held = other.held.detach()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"GpuTensor({self.held})"

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert a tensor of the GPU to numpy: copy it to the CPU first")

    def tolist(self) -> Any:
        return self.held.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save as what ``torch.load`` with ``map_location='cpu'`` gives back."""
        return self.held.detach().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


class _OnGpu(TorchFunctionMode):
    """What is asked to be made on, or moved to, the GPU is wrapped before PyTorch looks for a driver."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "to":
            return _move(func, args, kwargs)
        if name == "cpu":
            return _to_cpu(args[0])
        if name == "cuda":
            return _to_gpu(args[0])
        if name == "embedding_bag" and isinstance(args[0], GpuTensor):
            return _sum_bags(func, *args, **kwargs)
        if name in ("backward", "grad") and isinstance(args[0], GpuTensor):
            with _MadeInBackward():
                return func(*args, **kwargs)
        if _is_gpu(kwargs.get("device")):
            made = func(*args, **{**kwargs, "device": torch.device("cpu")})
            return _to_gpu(made)
        return func(*args, **kwargs)


class _MadeInBackward(TorchDispatchMode):
    """Puts what PyTorch itself makes in a backward pass on the GPU: PyTorch's own code sees tensors of the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        made = isinstance(result, Tensor) and not tree_any(lambda value: isinstance(value, Tensor), (args, kwargs))
        return _to_gpu(result) if made else result


def _move(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Do what ``tensor.to`` does with a device, a dtype or another tensor."""
    tensor, *wanted = args
    wanted += kwargs.values()
    devices = [torch.device(value) for value in wanted if isinstance(value, (torch.device, str))]
    devices += [value.device for value in wanted if isinstance(value, Tensor)]
    dtypes = [value if isinstance(value, torch.dtype) else value.dtype for value in wanted if _has_dtype(value)]
    device = devices[0] if devices else tensor.device
    cast = func(tensor, dtypes[0]) if dtypes else tensor
    return _to_gpu(cast) if device.type == "cuda" else _to_cpu(cast)


def _has_dtype(value: Any) -> bool:
    return isinstance(value, (Tensor, torch.dtype))


def _sum_bags(func: Any, bags: Tensor, weight: Tensor, **options: Any) -> Tensor:
    """Name where each bag begins: PyTorch's function would make these numbers on the GPU, unseen."""
    starts = GpuTensor(torch.arange(len(bags)) * bags.shape[1])
    options |= {"offsets": starts, "per_sample_weights": options["per_sample_weights"].reshape(-1)}
    summed: Tensor = func(bags.reshape(-1), weight, **options)
    return summed


def _to_gpu(tensor: Tensor) -> Tensor:
    if isinstance(tensor, GpuTensor):
        return tensor
    assert not (tensor.requires_grad and torch.is_grad_enabled()), "a gradient would be lost on its way to the GPU"
    return GpuTensor(tensor.detach())


def _to_cpu(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, GpuTensor):
        return tensor
    assert not (tensor.requires_grad and torch.is_grad_enabled()), "a gradient would be lost on its way to the CPU"
    # A copy, as it is with a real GPU: what changes there later changes nothing here.
    return tensor.held.detach().clone()


def _is_gpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, and let its results be where its arguments are."""
    if func.name() not in MIXING and tree_any(_is_cpu_tensor, (args, kwargs)):
        raise RuntimeError(f"{func.name()}: expected all tensors to be on one device, found cuda:0 and cpu")
    into_cpu = func.name() == "aten::copy_" and not isinstance(args[0], GpuTensor)
    wrappers: dict[int, GpuTensor] = {}

    def unwrap(value: Any) -> Any:
        if isinstance(value, GpuTensor):
            wrappers[id(value.held)] = value
            return value.held
        return torch.device("cpu") if _is_device(value) else value

    def wrap(value: Any) -> Any:
        # In-place operations return the tensor that they were given.
        if not isinstance(value, Tensor):
            return value
        return wrappers[id(value)] if id(value) in wrappers else GpuTensor(value)

    result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs))
    if into_cpu:
        return args[0]
    return tree_map(wrap, result)


def _is_cpu_tensor(value: Any) -> bool:
    """Say whether a value is a tensor of the CPU that CUDA would not take: scalars it takes."""
    return isinstance(value, Tensor) and not isinstance(value, GpuTensor) and value.dim() > 0


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


@contextlib.contextmanager
def simulated_gpu() -> Iterator[torch.device]:
    """Let this process have one GPU, and yield it."""
    stand_ins: dict[str, Callable[..., Any]] = {
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.device_count": lambda: 1,
        # As an old GPU, which can emulate it: `auto` is float32, and autocast changes nothing here.
        "torch.cuda.is_bf16_supported": lambda including_emulation=True: including_emulation,
        "torch.cuda.mem_get_info": lambda *_: (FREE, FREE),
        "torch.cuda.manual_seed_all": lambda *_: None,
        "torch.cuda.empty_cache": lambda: None,
        "torch.cuda.reset_peak_memory_stats": lambda *_: None,
        "torch.cuda.max_memory_reserved": lambda *_: FREE // 2,
        # Draws "on the GPU" are the CPU's, and so is their state.
        "torch.cuda.get_rng_state": lambda *_: torch.get_rng_state(),
        "torch.cuda.set_rng_state": lambda state, *_: torch.set_rng_state(state),
        # There is one stream.
        "torch.cuda.Stream": lambda *_: mock.Mock(),
        "torch.cuda.current_stream": lambda *_: mock.Mock(),
        "torch.cuda.stream": lambda _: contextlib.nullcontext(),
        "torch.accelerator.current_accelerator": lambda **_: None,
        "trainables.trial.CudaGraph": RepeatedStep,
        "trainables.trial.reading_beside": lambda *_: contextlib.nullcontext,
        # Parameters that move become new ones: theirs cannot become tensors of the GPU.
        "torch.__future__.get_overwrite_module_params_on_conversion": lambda: True,
        "torch.backends.cudnn.is_acceptable": lambda *_: False,
    }
    with contextlib.ExitStack() as stack:
        for name, stand_in in stand_ins.items():
            stack.enter_context(mock.patch(name, stand_in))
        stack.enter_context(_settings_kept())
        stack.enter_context(_OnGpu())
        yield GPU


@contextlib.contextmanager
def any_gpu() -> Iterator[torch.device]:
    """Yield this machine's GPU, or a simulated one where it has none."""
    with _settings_kept() if torch.cuda.is_available() else simulated_gpu():
        yield GPU


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Undo what a training on a GPU sets for the whole process."""
    was = torch.are_deterministic_algorithms_enabled()
    cudnn, products = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was)
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = cudnn, products
