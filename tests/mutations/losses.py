"""Faults of losses, of their counters, and of the protocols of evaluation."""

from tests.mutations.mutation import Mutation

COCOS = "tests/trainables/test_cocos.py"

MUTATIONS = (
    Mutation(
        name="one negative more than asked for counts where negatives tie",
        file="trainables/losses/directions.py",
        old="dtype=torch.int32) <= room",
        new="dtype=torch.int32) <= room + 1",
        tests="tests/trainables/losses/test_directions.py::test_exactly_k_are_chosen_the_hardest_first_and_of_ties_the_first",
    ),
    Mutation(
        name="patience lasts an epoch longer",
        file="trainables/config.py",
        old="waited >= self.patience",
        new="waited > self.patience",
        tests="tests/trainables/test_trial.py::test_patience_waits_from_the_best_epoch_on",
    ),
    Mutation(
        name="the effective number of negatives counts queries without a gradient",
        file="trainables/cocos.py",
        old="queries = with_gradient.sum(-1)",
        new="queries = with_gradient.shape[-1]",
        tests=f"{COCOS}::test_counters_are_those_of_autograd",
    ),
    Mutation(
        name="the mask of duplicates and negatives are swapped",
        file="trainables/data/batches.py",
        old='training.duplicates == "mask"',
        new='training.duplicates != "mask"',
        tests="tests/trainables/data/test_batches.py::test_duplicates_are_what_the_training_says",
    ),
    Mutation(
        name="a weight that equals epsilon counts",
        file="trainables/losses/directions.py",
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
        file="trainables/losses/ranking.py",
        old="rank = total // torch.minimum",
        new="rank = total / torch.minimum",
        tests="tests/trainables/losses/test_ranking.py::test_violators_and_weights_have_the_distribution_of_sequential_draws",
    ),
    Mutation(
        name="WARP's expected weight is not rounded down",
        file="trainables/losses/ranking.py",
        old="(total[:, None] // draws)",
        new="(total[:, None] / draws)",
        tests=f"{COCOS}::test_counters_are_those_of_autograd",
    ),
    Mutation(
        name="NT-Xent's positive weight is that of a single positive",
        file="trainables/losses/contrastive.py",
        old="direction.share_of_pair() - direction.of_pairs(probabilities)",
        new="1 - direction.of_pairs(probabilities)",
        tests=f"{COCOS}::test_a_solved_batch_of_several_positives_has_no_weights",
    ),
    Mutation(
        name="SelHN takes the mean at epsilon itself",
        file="trainables/losses/triplet.py",
        old="gap.detach().abs() < per_query",
        new="gap.detach().abs() <= per_query",
        tests="tests/trainables/losses/test_single_losses.py::test_each_query_decides_for_itself",
    ),
    Mutation(
        name="Multi-Similarity keeps the pairs on the edge",
        file="trainables/losses/pair_weights.py",
        old="~(scores - epsilon >= hardest)",
        new="~(scores - epsilon > hardest)",
        tests="tests/trainables/losses/test_pair_weights.py::test_a_pair_on_the_edge_is_left_out",
    ),
    Mutation(
        name="the circle loss's weights have a gradient",
        file="trainables/losses/pair_weights.py",
        old="scores, margin = direction.scores.detach()",
        new="scores, margin = direction.scores",
        tests="tests/trainables/losses/test_losses.py::test_gradient_is_that_of_the_formula",
    ),
    Mutation(
        name="the decoupled loss has its positive in the denominator",
        file="trainables/losses/contrastive.py",
        old="direction.of_negatives(direction.scores / per_score(self.temperature, direction.scores))",
        new="direction.scores / per_score(self.temperature, direction.scores)",
        tests="tests/trainables/losses/test_single_losses.py",
    ),
    Mutation(
        name="SmoothAP's other positives are pushed as negatives are",
        file="trainables/losses/ranking.py",
        old="torch.where(direction.rows(direction.positives), -beyond, rank - beyond)",
        new="(rank - beyond)",
        tests=f"{COCOS}::test_counters_are_those_of_autograd",
    ),
    Mutation(
        name="SmoothAP counts with the factor 1/t",
        file="trainables/losses/ranking.py",
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
        file="orchestrator/workload/evaluation.py",
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
        tests="tests/trainables/losses/test_single_losses.py::test_constants_are_refused",
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
    Mutation(
        name="a falling triplet weight of gradient_weights goes below 0",
        file="trainables/losses/pair_weights.py",
        old="return inside * (1 + per_score(self.slope, excess) * excess).relu()",
        new="return inside * (1 + per_score(self.slope, excess) * excess)",
        tests="tests/trainables/losses/test_pair_weights.py::test_a_falling_triplet_weight_ends_at_zero",
    ),
    Mutation(
        name="a triplet at the margin itself has a weight in gradient_weights",
        file="trainables/losses/pair_weights.py",
        old="inside = (excess > 0)",
        new="inside = (excess >= 0)",
        tests="tests/trainables/losses/test_pair_weights.py::test_a_triplet_at_the_margin_itself_has_no_weight",
    ),
    Mutation(
        name="a plug-in's loss ignores positives that are ignored",
        file="trainables/losses/plugin_loss.py",
        old="ignore & ~positives",
        new="ignore",
        tests="tests/trainables/plugins/test_plugin_loss.py::test_an_ignored_pair_that_is_a_positive_stays_a_positive",
    ),
    Mutation(
        name="judged ranks know no ties within the tolerance",
        file="trainables/evaluation.py",
        old="best - tolerance",
        new="best",
        tests="tests/trainables/judgements/test_judged_metrics.py"
        "::test_a_wrong_candidate_within_the_tolerance_of_a_right_one_ranks_first",
    ),
    Mutation(
        name="judged ranks leave out the tolerance of the scores",
        file="trainables/evaluation.py",
        old="first, scores.tolerance)",
        new="first, 0.0)",
        tests="tests/trainables/judgements/test_judged_metrics.py"
        "::test_a_wrong_candidate_within_the_tolerance_of_a_right_one_ranks_first",
    ),
)
"""What a test must notice."""
