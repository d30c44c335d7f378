# %% [markdown]
# # A loss of your own in ten minutes
#
# `own-loss/my_losses.py` holds a loss: a function of a similarity matrix with one decorator. This script calls the loss
# by hand, trains a model with it, and compares the model with one that was trained with NT-Xent. Run it in the folder
# `docs/examples`, as a script or cell by cell (VS Code and Jupytext read the `# %%` lines). A minute or two on two
# cores.

# %% tags=["parameters"]
images = 2000
epochs = 6

# %% [markdown]
# ## The data
#
# `scenes` is generated: pictures of coloured shapes with five captions each. Features are computed from the pixels.

# %%
import subprocess

generate = f"orchestrator data generate scenes --images {images} --seed 0 --out data/scenes"
subprocess.run(generate.split(), check=True)

# %% [markdown]
# ## The loss by hand
#
# `icr.load_plugins` reads the file; from then on the loss has a name as ours have. A row of `similarity` is an image, a
# column a caption. The loss must fall where the matching pairs, here those of the diagonal, are closer than the others.
#
# `orchestrator check-plugin own-loss/my_losses.py` checks in a terminal what our own losses are checked for: gradients,
# the order of the batch, ties, batches of two, pickling.

# %%
import torch

import orchestrator as icr
from trainables.cocos import count_contributions
from trainables.losses import build_loss

icr.load_plugins(["own-loss/my_losses.py"])
loss = build_loss("pair_sigmoid", scale=10.0)
positives = torch.eye(4, dtype=torch.bool)
random = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
matched = torch.where(positives, 0.9, random / 2)
print(f"random: {float(loss(random, positives)):.3f}, matched: {float(loss(matched, positives)):.3f}")
assert loss(matched, positives) < loss(random, positives)

# %% [markdown]
# COCOS counts which pairs contribute to the gradient. A loss that says no weights of its own gets the general count.

# %%
for name, count in count_contributions(loss, random, positives, epsilon=0.01).items():
    print(f"{name}: {float(count):g}")

# %% [markdown]
# ## One training with each loss
#
# All else is the same: data, model, seed, epochs. `val/rsum` is the sum of six recalls, 600 at best.

# %%
settings = ["dataset=scenes", f"training.epochs={epochs}", "training.batch_size=32", "training.learning_rate=1e-3"]
settings += ["training.embedding_size=128", "training.word_size=64"]
plugins = ["own-loss/my_losses.py"]
mine = icr.train(overrides=[*settings, "loss=pair_sigmoid"], plugins=plugins, name="mine")
theirs = icr.train(overrides=[*settings, "loss=nt_xent"], name="theirs")
print(f"chance: {mine.chance_rsum:.1f}")
print(f"pair_sigmoid: {mine.metrics['val/rsum']:.1f} after epoch {mine.best_epoch}")
print(f"nt_xent:      {theirs.metrics['val/rsum']:.1f} after epoch {theirs.best_epoch}")

# %% [markdown]
# One training each, at the defaults of each loss, says little: seeds alone move these numbers. The script
# `search_and_verdict.py` searches both losses with as many trials, trains the best settings again with fresh seeds, and
# says how sure the answer is.
