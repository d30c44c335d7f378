"""Faults of losses, of their counters, and of the protocols of evaluation."""

from tests.mutations.mutation import Mutation

COCOS = "tests/trainables/test_cocos.py"

MUTATIONS = (
    Mutation(
        name="the mask of duplicates and negatives are swapped",
        file="trainables/data/batches.py",
        old='training.duplicates == "mask"',
        new='training.duplicates != "mask"',
        tests="tests/trainables/data/test_batches.py::test_duplicates_are_what_the_training_says",
    ),
    Mutation(
        name="a weight that equals epsilon counts",
        file="trainables/losses/contributions.py",
        old=" > epsilon",
        new=" >= epsilon",
        tests=f"{COCOS}::test_what_equals_epsilon_does_not_count",
    ),
    Mutation(
        name="a gradient that equals epsilon counts",
        file="trainables/cocos.py",
        old="gradient.abs() > epsilon",
        new="gradient.abs() >= epsilon",
        tests=f"{COCOS}::test_a_gradient_that_equals_epsilon_does_not_count",
    ),
    Mutation(
        name="WARP's weight is not rounded down",
        file="trainables/losses/warp.py",
        old="rank = total // torch.minimum",
        new="rank = total / torch.minimum",
        tests="tests/trainables/losses/test_warp.py::test_violators_and_weights_have_the_distribution_of_sequential_draws",
    ),
    Mutation(
        name="WARP's expected weight is not rounded down",
        file="trainables/losses/warp.py",
        old="(total[:, None] // draws)",
        new="(total[:, None] / draws)",
        tests=f"{COCOS}::test_counters_are_those_of_autograd",
    ),
    Mutation(
        name="NT-Xent's positive weight is that of a single positive",
        file="trainables/losses/nt_xent.py",
        old="direction.share_of_pair() - direction.of_pairs(probabilities)",
        new="1 - direction.of_pairs(probabilities)",
        tests=f"{COCOS}::test_a_solved_batch_of_several_positives_has_no_weights",
    ),
    Mutation(
        name="SelHN takes the mean at epsilon itself",
        file="trainables/losses/selective.py",
        old="gap.detach().abs() < per_query",
        new="gap.detach().abs() <= per_query",
        tests="tests/trainables/losses/test_selective.py::test_each_query_decides_for_itself",
    ),
    Mutation(
        name="Multi-Similarity keeps the pairs on the edge",
        file="trainables/losses/multi_similarity.py",
        old="~(scores - epsilon >= hardest)",
        new="~(scores - epsilon > hardest)",
        tests="tests/trainables/losses/test_multi_similarity.py::test_a_pair_on_the_edge_is_left_out",
    ),
    Mutation(
        name="the circle loss's weights have a gradient",
        file="trainables/losses/circle.py",
        old="scores, margin = direction.scores.detach()",
        new="scores, margin = direction.scores",
        tests="tests/trainables/losses/test_circle.py::test_a_batch_to_read",
    ),
    Mutation(
        name="the decoupled loss has its positive in the denominator",
        file="trainables/losses/decoupled.py",
        old="torch.where(direction.negatives, logits, other)",
        new="logits",
        tests="tests/trainables/losses/test_decoupled.py",
    ),
    Mutation(
        name="SmoothAP's other positives are pushed as negatives are",
        file="trainables/losses/smooth_ap.py",
        old="torch.where(direction.rows(direction.positives), -beyond, rank - beyond)",
        new="(rank - beyond)",
        tests=f"{COCOS}::test_counters_are_those_of_autograd",
    ),
    Mutation(
        name="SmoothAP counts with the factor 1/t",
        file="trainables/losses/smooth_ap.py",
        old="exceeds * (1 - exceeds) / rank.square()",
        new="exceeds * (1 - exceeds) / rank.square() / 0.01",
        tests=f"{COCOS}::test_published_counts",
    ),
    Mutation(
        name="the published counters keep the mask of duplicates",
        file="trainables/cocos.py",
        old='ignore = None if convention == "published" else ignore',
        new="ignore = ignore",
        tests=f"{COCOS}::test_the_published_code_takes_duplicates_for_negatives",
    ),
    Mutation(
        name="COCOS keeps the first batch size",
        file="trainables/trial.py",
        old="""        training = self.config.at(self.epoch).training
        order =""",
        new="""        training = self.config.training
        order =""",
        tests="tests/trainables/test_trial.py::test_cocos_has_the_batch_size_in_force",
    ),
    Mutation(
        name="the command cocos keeps the first batch size",
        file="orchestrator/workload/contributions.py",
        old="epoch_batches(split, now.training,",
        new="epoch_batches(split, config.training,",
        tests="tests/orchestrator/workload/test_train_command.py::test_cocos_has_the_batch_size_of_the_best_epoch",
    ),
    Mutation(
        name="a constant is a polynomial of relative similarities",
        file="trainables/losses/polynomial.py",
        old="""        _require_slope({"coefficients": checked})
""",
        new="",
        tests="tests/trainables/losses/test_polynomial.py::test_constants_are_refused",
    ),
    Mutation(
        name="folds are ignored",
        file="trainables/evaluation.py",
        old="metrics_in_folds(model.scores, images, captions, owners, folds=folds)",
        new="metrics_in_folds(model.scores, images, captions, owners)",
        tests="tests/orchestrator/workload/test_train_command.py::test_folds_are_evaluated_alone_and_averaged",
    ),
    Mutation(
        name="val_images is ignored",
        file="trainables/data/dataset.py",
        old="val_images=config.val_images",
        new="val_images=None",
        tests="tests/orchestrator/workload/test_train_command.py::test_val_images_are_the_first_ones",
    ),
    Mutation(
        name="trials of a search ignore val_images",
        file="orchestrator/workload/training.py",
        old="val_images=asked.val_images,",
        new="val_images=None,",
        tests="tests/orchestrator/storage/test_datasets.py::test_a_trial_sees_the_val_images_that_it_asks_for",
    ),
)
"""What a test must notice."""
