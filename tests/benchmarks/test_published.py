"""What the benchmarks measure against takes the same steps and finds the same ranks as the product."""

import numpy as np
import pytest
import torch

from tests.benchmarks.cross_attention import make_captions, make_model
from tests.benchmarks.epoch import OurTraining, make_config
from tests.benchmarks.flickr8k import generate
from tests.benchmarks.published import PublishedModel, PublishedTraining, collate, published_metrics
from trainables.data.batches import pair_batches
from trainables.metrics import embedding_metrics
from trainables.training_steps import finish, train_epoch

SIZE = 16


def test_both_loops_take_the_same_steps() -> None:
    data = generate({"train": 30, "val": 10, "test": 5})
    ours = OurTraining(data, SIZE, "cpu").trial
    words = make_config(SIZE).training.word_size
    model = PublishedModel(data.splits["train"].features.shape[-1], len(data.vocabulary), words, SIZE)
    theirs = PublishedTraining(model, data.splits["train"], data.splits["val"], torch.device("cpu"))
    model.image.load_state_dict(ours.model.image_projection.state_dict())
    model.words.load_state_dict(ours.model.text.words.state_dict())
    model.gru.load_state_dict(ours.model.text.gru.state_dict())
    order = list(torch.randperm(150, generator=torch.Generator().manual_seed(0)).split(32))[:4]
    losses = []
    for captions in order:
        batches = pair_batches(ours.train_split, [captions], mask_duplicates=False)
        losses.append(finish(train_epoch(ours.model, ours.loss, ours.optimizer, batches, 2.0, 1)))
        theirs.step(collate([theirs.train[index] for index in captions.tolist()]))
    assert losses == pytest.approx(theirs.losses, rel=1e-4)
    assert losses[0] > 1
    for name, value in theirs.evaluate().items():
        assert ours.evaluate_on_val()[f"val/{name}"] == pytest.approx(value), name


def test_the_published_ranks_are_ours() -> None:
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((40, 8)))
    captions = images.repeat_interleave(5, 0) + torch.from_numpy(rng.standard_normal((200, 8)))
    owner = torch.arange(40).repeat_interleave(5)
    expected = embedding_metrics(images, captions, owner)
    found = published_metrics(images[owner].numpy(), captions.numpy())
    assert found == pytest.approx({name: expected[name] for name in found})


def test_the_loop_over_captions_gives_the_similarities_and_gradients_of_ours() -> None:
    images, (tokens, lengths), found = torch.randn(7, 5, 6), make_captions(40), []
    for kind in ("ours", "loop"):
        model = make_model(kind, "5:6:8")
        similarity = model.compare(model.encode_images(images), model.encode_captions(tokens, lengths))
        (similarity * torch.linspace(-1, 1, 40)).sum().backward()
        found.append([similarity.detach(), *(one.grad for one in model.parameters() if one.grad is not None)])
    assert len(found[0]) == len(list(make_model("ours", "5:6:8").parameters())) + 1
    for ours, loop in zip(*found, strict=True):
        torch.testing.assert_close(ours, loop, atol=1e-5, rtol=1e-4)
