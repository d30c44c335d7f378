"""Folders of tiny encoders with random weights, as open_clip, transformers and sentence-transformers write them."""

import json
from pathlib import Path
from typing import Any

import torch

SIZE, WIDTH, LENGTH = 32, 16, 12
"""Side of a picture, dimensions of the vectors, tokens of a caption."""

WORDS = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    *["a", "picture", "with", "number", "dog", ",", "side", "from", "seen", "the", "."],
    *map(str, range(40)),
]

OPEN_CLIP_CONFIG: dict[str, Any] = {
    "embed_dim": WIDTH,
    "vision_cfg": {"image_size": SIZE, "layers": 1, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


def open_clip_weights(path: Path) -> Path:
    """Weights of a model of ``OPEN_CLIP_CONFIG``, as safetensors."""
    import open_clip
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = open_clip.model.CLIP(**OPEN_CLIP_CONFIG)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    return path


def open_clip_folder(folder: Path) -> Path:
    """A folder as those of open_clip on the Hub, with a preparation of pictures of its own."""
    folder.mkdir(parents=True)
    prepared = {"mean": [0.5, 0.4, 0.3], "std": [0.5, 0.5, 0.5], "interpolation": "bilinear", "resize_mode": "squash"}
    content = {"model_cfg": OPEN_CLIP_CONFIG, "preprocess_cfg": prepared}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    open_clip_weights(folder / "open_clip_model.safetensors")
    return folder


def write_tokenizer(folder: Path, *, eos: str = "</s>") -> None:
    """A tokenizer of whole words, with an end token after each caption, as the text towers of CLIP and SigLIP need."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    places = {word: place for place, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(places, unk_token="<unk>"))
    words.normalizer, words.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single=f"$A {eos}", special_tokens=[(eos, places[eos])])
    tokens = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": eos}
    PreTrainedTokenizerFast(tokenizer_object=words, **tokens).save_pretrained(folder)


TOWERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


def clip_folder(folder: Path) -> Path:
    """A CLIP of transformers."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    torch.manual_seed(1)
    text = {**TOWERS, "vocab_size": len(WORDS), "max_position_embeddings": LENGTH, "eos_token_id": 3, "bos_token_id": 2}
    vision = {**TOWERS, "image_size": SIZE, "patch_size": 16}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH))
    model.save_pretrained(folder)
    sides = {"size": {"shortest_edge": SIZE}, "crop_size": {"height": SIZE, "width": SIZE}}
    CLIPImageProcessor(**sides).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def siglip_folder(folder: Path) -> Path:
    """A SigLIP of transformers."""
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    torch.manual_seed(2)
    text = {**TOWERS, "vocab_size": len(WORDS), "max_position_embeddings": LENGTH, "projection_size": 32}
    vision = {**TOWERS, "image_size": SIZE, "patch_size": 16}
    SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    SiglipImageProcessor(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def dinov2_folder(folder: Path) -> Path:
    """A DINOv2 of transformers, which has no captions."""
    from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

    torch.manual_seed(3)
    config = Dinov2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=SIZE, patch_size=16)
    Dinov2Model(config).save_pretrained(folder)
    sides = {"size": {"shortest_edge": SIZE}, "crop_size": {"height": SIZE, "width": SIZE}}
    BitImageProcessor(**sides).save_pretrained(folder)
    return folder


def sentence_folder(folder: Path) -> Path:
    """A sentence encoder: a BERT, the mean of its tokens, unit length."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel

    torch.manual_seed(4)
    bert = folder.with_name(f"{folder.name}-bert")
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **TOWERS)).save_pretrained(bert)
    write_tokenizer(bert)
    words = modules.Transformer(str(bert), max_seq_length=32)
    pooled = modules.Pooling(words.get_embedding_dimension())
    SentenceTransformer(modules=[words, pooled, modules.Normalize()], device="cpu").save(str(folder))
    return folder
