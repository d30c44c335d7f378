"""What a message proposes to a user who writes the name of another program, or a key as an option."""

import pytest

from tests.support.commands import CommandLine


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("losses=[InfoNCE]", "unknown name 'InfoNCE'; did you mean 'nt_xent'?"),
        ("models=[VSE++]", "did you mean 'vsepp'?"),
        ("search.sampler=bayesian", "did you mean 'tpe'?"),
        ("search.metric=recall@1", "did you mean 'val/i2t_r1'?"),
        ("training.lr=0.1", "training.lr: unknown key; did you mean 'learning_rate'?"),
        ("lr=0.1", "lr: unknown key; it is called training.learning_rate here"),
        ("search.n_trials=3", "did you mean 'trials'?"),
        ("search.space={nt_xent: {tau: [0.1, 0.2]}}", "did you mean 'temperature'?"),
    ],
)
def test_a_message_has_the_hint(cli: CommandLine, setting: str, hint: str) -> None:
    assert hint in cli.refuses("search", "flickr8k-quick", "--set", setting)


@pytest.mark.parametrize(
    ("command", "option", "key"),
    [
        *(("search", "--trials", "search.trials"), ("search", "--epochs", "training.epochs")),
        *(("search", "--batch-size", "training.batch_size"), ("search", "--loss", "losses")),
        *(("search", "--seeds", "confirm.seeds"), ("train", "--lr", "training.learning_rate")),
        ("train", "--margin", None),
    ],
)
def test_an_option_that_is_a_key_of_the_file_is_answered_with_the_key(
    cli: CommandLine, command: str, option: str, key: str | None
) -> None:
    said = " ".join(cli.refuses(command, option, "3").split())
    assert f"No such option: {option}" in said
    assert ("give --set" in said) == (key is not None)
    assert key is None or f"{option}: give --set {key}=VALUE" in said
