"""VSE++ as one would write it after its paper: the loop, and the evaluation, that the product is measured against.

A data loader makes each batch anew out of single pairs, sorts it by length and pads it; a packed ``nn.GRU`` reads the
captions; loss and gradient are those of the hardest negatives; loss is read after each step. Captions are tokenised
beforehand, which the published code does again for each pair of each epoch. Evaluation encodes an image once a caption,
keeps what it encoded as NumPy's float64, and sorts all candidates of each query.

References:
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from trainables.data.dataset import Split

Pairs = tuple[Tensor, Tensor, list[int], list[int]]
"""Images (B, D), word ids (B, T), longest caption first, their lengths, and where each stood."""

BATCH, MARGIN, CLIP, RATE = 128, 0.2, 2.0, 2e-4
CAPTIONS = 5


class PairDataset(TorchDataset[tuple[Tensor, Tensor, int]]):
    def __init__(self, split: Split) -> None:
        self.images = np.asarray(split.features[split.image_rows], dtype=np.float32)
        self.captions = np.split(np.asarray(split.tokens, dtype=np.int64), split.offsets[1:-1])

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        return torch.Tensor(self.images[index // CAPTIONS]), torch.LongTensor(self.captions[index]), index


def collate(pairs: list[tuple[Tensor, Tensor, int]]) -> Pairs:
    """Sort some pairs by the length of their captions, and pad these with 0."""
    pairs.sort(key=lambda pair: len(pair[1]), reverse=True)
    images, captions, indices = zip(*pairs, strict=True)
    lengths = [len(caption) for caption in captions]
    padded = torch.zeros(len(captions), max(lengths), dtype=torch.long)
    for row, caption in enumerate(captions):
        padded[row, : len(caption)] = caption
    return torch.stack(images), padded, lengths, list(indices)


class PublishedModel(nn.Module):
    """A linear map for images, a GRU for captions, both scaled to unit length."""

    def __init__(self, image_size: int, vocabulary_size: int, word_size: int, embedding_size: int) -> None:
        super().__init__()
        self.image = nn.Linear(image_size, embedding_size)
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True)

    def forward(self, images: Tensor, captions: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(self.words(captions), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        last = (torch.tensor(lengths, device=images.device) - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return normalize(self.image(images)), normalize(states.gather(1, last).squeeze(1))


def hardest_negatives(images: Tensor, captions: Tensor) -> Tensor:
    """Return the loss of [Faghri2018, eq. 6] with the sum over both directions."""
    scores = images @ captions.T
    own = scores.diag()
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    of_images = (MARGIN + scores - own[:, None]).clamp(min=0).masked_fill(diagonal, 0)
    of_captions = (MARGIN + scores - own[None, :]).clamp(min=0).masked_fill(diagonal, 0)
    return of_images.max(1).values.sum() + of_captions.max(0).values.sum()


class PublishedTraining:
    def __init__(self, model: PublishedModel, train: Split, val: Split, device: torch.device) -> None:
        self.model, self.device = model.to(device), device
        self.optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        self.train, self.val = (PairDataset(split) for split in (train, val))
        self._batches = self._endless()
        self.losses: list[float] = []

    def steps(self, count: int) -> None:
        self.model.train()
        for _ in range(count):
            self.step(next(self._batches))

    def step(self, pairs: Pairs) -> None:
        images, captions, lengths, _ = pairs
        self.optimizer.zero_grad()
        loss = hardest_negatives(*self.model(images.to(self.device), captions.to(self.device), lengths))
        self.losses.append(loss.item())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        found = [np.zeros((len(self.val), self.model.gru.hidden_size)) for _ in range(2)]
        loader = DataLoader(self.val, BATCH, shuffle=False, collate_fn=collate)
        with torch.no_grad():
            for images, captions, lengths, indices in loader:
                encoded = self.model(images.to(self.device), captions.to(self.device), lengths)
                for target, part in zip(found, encoded, strict=True):
                    target[indices] = part.cpu().numpy()
        return published_metrics(*found)

    def _endless(self) -> Iterator[Pairs]:
        loader = DataLoader(self.train, BATCH, shuffle=True, collate_fn=collate)
        while True:
            yield from loader


def published_metrics(images: np.ndarray, captions: np.ndarray) -> dict[str, float]:
    """Rank by sorting all candidates of each query; a row is a caption, and five in a row are of one image."""
    images = images[::CAPTIONS]
    i2t = np.zeros(len(images))
    for index, image in enumerate(images):
        order = np.argsort(image @ captions.T)[::-1]
        places = [np.where(order == own)[0][0] for own in range(CAPTIONS * index, CAPTIONS * (index + 1))]
        i2t[index] = min(places)
    t2i = np.zeros(len(captions))
    for index in range(len(images)):
        scores = captions[CAPTIONS * index : CAPTIONS * (index + 1)] @ images.T
        for row, caption in enumerate(scores):
            t2i[CAPTIONS * index + row] = np.where(np.argsort(caption)[::-1] == index)[0][0]
    ranks = {"i2t": i2t, "t2i": t2i}
    recalls = {f"{way}_r{k}": 100.0 * float(np.mean(found < k)) for way, found in ranks.items() for k in (1, 5, 10)}
    return {**recalls, "rsum": sum(recalls.values())}
