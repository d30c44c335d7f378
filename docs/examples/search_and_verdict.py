# %% [markdown]
# # A search and its verdict on scenes
#
# Does the loss of `own-loss/my_losses.py` retrieve better than NT-Xent? A search gives both losses the same number of
# trials, then trains the best setting of each again with fresh seeds, opens the test split for these, and judges. Run
# this script in the folder `docs/examples`. Less than ten minutes on two cores; interrupted, the same call resumes.

# %% tags=["parameters"]
images = 2000
epochs = 6
trials = 4
seeds = 3

# %%
import subprocess

import orchestrator as icr

generate = f"orchestrator data generate scenes --images {images} --seed 0 --out data/scenes"
subprocess.run(generate.split(), check=True)

# %% [markdown]
# ## What is asked
#
# The keys are those of an experiment file; `docs/experiment-keys.md` has all of them. A wrong key is refused here,
# before anything is trained. Each loss is a study of its own; its first trial has the defaults of the loss.

# %%
experiment = icr.make_experiment(
    {
        "name": "example",
        "plugins": ["own-loss/my_losses.py"],
        "datasets": ["scenes"],
        "losses": ["pair_sigmoid", "nt_xent"],
        "training": {"epochs": epochs, "batch_size": 32, "learning_rate": 1e-3, "embedding_size": 128, "word_size": 64},
        "search": {"sampler": "tpe", "trials": trials},
        "scheduler": {"name": "asha", "grace_epochs": max(1, epochs // 2), "reduction_factor": 2},
        "confirm": {"top": 1, "seeds": seeds},
    }
)
for study in experiment.cells():
    print(study.name, {name: str(bound) for name, bound in study.space.bounds().items()})

# %% [markdown]
# ## The search

# %%
found = icr.search(experiment, data_root="data")

# %% [markdown]
# Every trial is a row. A trial that the scheduler stopped early has fewer epochs, and cannot win.

# %%
columns = ["loss", "stage", "state", "epochs", "val/rsum"]
print(found.trials.sort_values("val/rsum", ascending=False)[columns].to_string())

# %% [markdown]
# ## The verdict
#
# `candidates` has the settings that were trained again: mean and sample standard deviation over the fresh seeds, on the
# test split. `verdicts` compares the winner with the others: a difference, its 95 % interval, and *better* or *tie*.
# *Tie* is an answer: this many seeds cannot tell the two apart.

# %%
print(found.candidates[["loss", "mean", "sample_std", "seeds"]].to_string())
print(found.verdicts[["winner", "verdict", "difference", "low", "high"]].to_string())
print(*(answer["headline"] for answer in found.summary["answers"]), sep="\n")
