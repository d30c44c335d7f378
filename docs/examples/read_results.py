# %% [markdown]
# # Reading the results
#
# Everything that a search came to is in its folder, and is read as pandas data frames, also while the search runs. This
# script reads what `search_and_verdict.py` left under `runs/example`; run it after that one, in the same folder.

# %%
import orchestrator as icr

found = icr.load("runs/example")
print(found.trials.groupby(["loss", "state"]).size())

# %% [markdown]
# ## Curves
#
# `epochs` has a row for each epoch of each trial. The best value at each epoch, a column for each loss:

# %%
best = found.epochs.groupby(["epoch", "loss"])["val/rsum"].max().unstack()
print(best.round(1).to_string())

# %% [markdown]
# The same with Plotly, which shows a figure in a notebook; here the figure becomes a page.

# %%
import plotly.graph_objects as go

figure = go.Figure(layout={"xaxis_title": "epoch", "yaxis_title": "val/rsum"})
for trial, rows in found.epochs.groupby("trial"):
    figure.add_scatter(x=rows.index.get_level_values("epoch"), y=rows["val/rsum"], name=str(trial))
figure.write_html("curves.html", include_plotlyjs="directory")

# %% [markdown]
# ## Settings
#
# What was searched stands under `param.NAME`; a loss has no value in the columns of another.

# %%
searched = [name for name in found.trials if name.startswith("param.")]
print(found.trials.sort_values("val/rsum", ascending=False)[["loss", *searched, "val/rsum"]].head().to_string())

# %% [markdown]
# ## What the gradients look like
#
# `cocos` has the counters of contributing samples at the best epoch, mean and standard deviation over batches. All
# losses have the general ones, `gradient_negatives` and `gradient_positives`: pairs with a slope beyond epsilon.

# %%
general = found.cocos[found.cocos.index.get_level_values("counter").str.startswith("gradient_")]
print(general.groupby(["loss", "counter"])["mean"].mean().unstack().round(2).to_string())

# %% [markdown]
# ## Asking the winner

# %%
winner = found.best
print(winner.trial, dict(winner.parameters), "confirmed" if winner.confirmed else "not confirmed")
retriever = winner.retriever()
for answer in retriever.images_for("two red circles on grass", 3):
    print(f"{answer.filename}: {answer.score:.3f}")

# %% [markdown]
# ## Other programs
#
# `orchestrator export example --to example.csv` writes the table; the endings `.parquet`, `.jsonl`, `.db` (Optuna),
# `.tensorboard` and `.wandb` write the same trials for other programs. `orchestrator report example` writes a page.
