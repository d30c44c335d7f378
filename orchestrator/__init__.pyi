from orchestrator.experiment.experiment import Experiment as Experiment
from orchestrator.experiment.plugins import load_plugins as load_plugins
from orchestrator.searches.begin import make_experiment as make_experiment
from orchestrator.searches.begin import search as search
from orchestrator.searches.loaded import LoadedExperiment as LoadedExperiment
from orchestrator.searches.loaded import load as load
from orchestrator.workload.evaluation import evaluate as evaluate
from orchestrator.workload.single import train as train
from trainables.config import TrialConfig as TrialConfig

__all__ = [
    "Experiment",
    "LoadedExperiment",
    "TrialConfig",
    "evaluate",
    "load",
    "load_plugins",
    "make_experiment",
    "search",
    "train",
]
