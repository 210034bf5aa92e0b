"""Optimisers, gradient clipping and learning-rate schedules."""

from .clip import clip_grad_norm_, clip_grad_value_
from .natural import QuantumNaturalGradient
from .optimizer import Optimizer
from .rules import SGD, Adagrad, Adam, AdamW, RMSprop
from .schedule import CosineLR, Scheduler, StepLR, WarmupLR

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "CosineLR",
    "Optimizer",
    "QuantumNaturalGradient",
    "RMSprop",
    "Scheduler",
    "StepLR",
    "WarmupLR",
    "clip_grad_norm_",
    "clip_grad_value_",
]
