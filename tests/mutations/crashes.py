"""Faults that only a crash brings to light."""

from tests.mutations.mutation import Mutation

EACH_KIND = "tests/faults/test_every_record.py::test_it_resumes_to_the_same_end_from_a_record_of_each_kind"
KILLED = f"'{EACH_KIND}[one by one-killed after it]'"
POWER_LOST = f"'{EACH_KIND}[one by one-power lost while it is written]'"

MUTATIONS = (
    Mutation(
        name="a start deletes the checkpoints that the journal does not know",
        file="orchestrator/storage/checkpoints.py",
        old="                moved.append(self.store.set_aside(place, occasion))",
        new="                self.store.delete(entry)",
        tests="tests/orchestrator/searches/test_preparation.py::test_a_start_with_a_cut_journal_moves_what_the_journal_does_not_know",
    ),
    Mutation(
        name="two deliveries of an experiment run at once",
        file="trainables/files.py",
        old="fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))",
        new="fcntl.flock(descriptor, fcntl.LOCK_SH)",
        tests="tests/orchestrator/tracking/test_sync.py::test_beside_the_delivery_of_a_running_search_nothing_is_sent",
    ),
    Mutation(
        name="a run stays below the study that was made twice",
        file="orchestrator/tracking/store.py",
        old="        if run.parent != study.id:",
        new="        if False:",
        tests="tests/orchestrator/tracking/test_sync.py::test_runs_that_were_made_twice_are_merged_below_one_study",
    ),
    Mutation(
        name="starts at once test a folder with one file",
        file="trainables/files.py",
        old='    with tempfile.TemporaryFile(dir=directory, prefix=".writable-"):\n        pass',
        new='    write_whole(directory / ".writable", "")\n    (directory / ".writable").unlink()',
        tests="tests/orchestrator/searches/test_preparation.py::test_many_starts_at_once_share_an_output_folder",
    ),
    Mutation(
        name="the reader of a status takes the actors from the history",
        file="orchestrator/searches/status.py",
        old="            self.history = self.history.without_actors()",
        new="            self.history.actors.clear()",
        tests="tests/orchestrator/searches/test_status.py::test_what_waits_for_room_or_for_the_next_start_is_to_come",
    ),
    Mutation(
        name="the second process in between does not end what is bound",
        file="orchestrator/machines/processes.py",
        old="        os.killpg(0, signal.SIGTERM)\n        time.sleep(GRACE_SECONDS)",
        new="        os._exit(0)\n        time.sleep(GRACE_SECONDS)",
        tests="tests/orchestrator/machines/test_processes.py::test_it_ends_where_its_starter_and_a_process_in_between_are_killed",
    ),
    Mutation(
        name="a record is acted upon before it is forced to the disk",
        file="orchestrator/journal/ledger.py",
        old="line = line[self._file.write(line) :]\n            os.fsync(self._file.fileno())",
        new="line = line[self._file.write(line) :]",
        tests=KILLED,
    ),
    Mutation(
        name="a torn record stays in front of the next",
        file="orchestrator/journal/ledger.py",
        old="self._file.truncate(self._size)\n        os.fsync",
        new="os.fsync",
        tests=POWER_LOST,
    ),
    Mutation(
        name="a restart passes over the trials that ran",
        file="orchestrator/studies/study.py",
        old="deque(trial for trial in searched if not trial.has_ended)",
        new="deque[Trial]()",
        tests=KILLED,
    ),
    Mutation(
        name="a restart asks the sampler without what it knew",
        file="orchestrator/studies/study.py",
        old="        self.asked += 1\n        self.add(trial)",
        new="        self.asked += 1",
        tests=KILLED,
    ),
    Mutation(
        name="a restart judges without what was judged before",
        file="orchestrator/tuner/scheduler.py",
        old="        self._replay()\n",
        new="",
        tests=KILLED,
    ),
    Mutation(
        name="a restart forgets how long there has been nothing better",
        file="orchestrator/searches/budget.py",
        old="self._counted = 0",
        new="self._counted = len(history.ended)",
        tests=KILLED,
    ),
    Mutation(
        name="a restart takes the trials of another experiment again",
        file="orchestrator/studies/warm_start.py",
        old="if name in ledger.history.warmed_by:",
        new="if False:",
        tests=KILLED,
    ),
    Mutation(
        name="a restart opens the test split again",
        file="orchestrator/winners/winners.py",
        old=" and trial.id not in opened]",
        new="]",
        tests=KILLED,
    ),
)
