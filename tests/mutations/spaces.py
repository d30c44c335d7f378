"""Faults of search spaces, their versions, and what is said of them."""

from tests.mutations.mutation import Mutation

MUTATIONS = (
    Mutation(
        name="the second dip of a cubic slope forgets the first",
        file="search_spaces/shapes.py",
        old="second = first + gap * (1 - first)",
        new="second = gap",
        tests="tests/search_spaces/test_shapes.py::test_a_constant_slope_is_there_in_every_degree",
    ),
    Mutation(
        name="a quadratic slope dips nowhere",
        file="search_spaces/shapes.py",
        old="[dip**2 / mean, -2 * dip / mean, 1 / mean]",
        new="[0.0, 0.0, 3.0]",
        tests="tests/search_spaces/test_shapes.py::test_every_feasible_slope_is_a_point",
    ),
    Mutation(
        name="the mean of a large batch is out of bounds",
        file="search_spaces/polynomial.py",
        old="min(1.0, SMALLEST * pairs)",
        new="(SMALLEST * pairs)",
        tests="tests/search_spaces/test_polynomial.py::test_the_scale_goes_from_the_mean_to_four_times_the_sum",
    ),
    Mutation(
        name="the sum of every batch has 128 pairs",
        file="search_spaces/polynomial.py",
        old="_constant(sides, float(asked.pairs), 0.2)",
        new="_constant(sides, 128.0, 0.2)",
        tests="tests/search_spaces/test_polynomial.py::test_the_triplet_loss_and_its_mean_come_first_and_lie_inside",
    ),
    Mutation(
        name="the second of two hinges has no constant",
        file="search_spaces/polynomial.py",
        old='margin = chosen["margin"] if is_first else beside.get("negative_margin", 0.0)',
        new='margin = chosen["margin"] if is_first else 0.0',
        tests="tests/search_spaces/test_polynomial.py::test_two_hinges_have_two_constants_and_a_joint_hinge_has_one",
    ),
    Mutation(
        name="older names bring no older parametrisation",
        file="search_spaces/polynomial.py",
        old="    if earlier or asked.version == 1:\n        return replace",
        new="    if asked.version == 1:\n        return replace",
        tests="tests/search_spaces/test_polynomial.py::test_older_names_bring_the_older_parametrisation",
    ),
    Mutation(
        name="a gate leaves the domain as it is",
        file="trainables/feasibility.py",
        old="0.0 - min(gate, LARGEST_GATE)",
        new="low",
        tests="tests/search_spaces/test_polynomial.py::test_the_slope_is_asked_for_from_the_gate_on",
    ),
    Mutation(
        name="version 1 has the bounds of today",
        file="search_spaces/space.py",
        old="if asked.version == 1 else space",
        new="if asked.version == 0 else space",
        tests="tests/search_spaces/test_polynomial.py::test_version_1_has_the_bounds_and_the_first_points_of_then",
    ),
    Mutation(
        name="a search that began goes on in another space",
        file="orchestrator/experiment/experiment.py",
        old='if not begun or "space_version" in self.search.model_fields_set:',
        new="if True:",
        tests="tests/search_spaces/test_polynomial.py::test_an_experiment_that_began_with_version_1_goes_on_with_it_unless_it_names_another",
    ),
    Mutation(
        name="a journal without a version is one of today",
        file="orchestrator/journal/history.py",
        old='"space_version": 1}}',
        new='"space_version": 2}}',
        tests="tests/orchestrator/journal/test_history.py::test_an_experiment_of_version_0_1_has_the_search_space_of_then",
    ),
    Mutation(
        name="a baseline that lies outside is passed over",
        file="orchestrator/experiment/overlaps.py",
        old="elif twins and not inside:",
        new="elif False:",
        tests="tests/orchestrator/experiment/test_overlaps.py::test_a_baseline_that_is_outside_is_named_with_the_bounds_that_leave_it_out",
    ),
    Mutation(
        name="a warm-up of one epoch is none",
        file="trainables/optimizers.py",
        old="epoch / (warmup + 1)",
        new="epoch / (warmup or 1)",
        tests="tests/trainables/test_trial.py::test_the_rate_rises_over_the_epochs_of_a_warm_up",
    ),
    Mutation(
        name="published settings of each study are those of the dataset",
        file="orchestrator/results/confirmation.py",
        old="    if each:\n",
        new="    if not each:\n",
        tests="tests/orchestrator/results/test_confirmation.py::test_the_best_of_each_study_and_the_best_published_settings_are_chosen",
    ),
)
