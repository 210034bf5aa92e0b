"""torchvision's names of the transforms that the tutorials use."""

from ...data.transforms import CenterCrop, Compose, Normalize, Resize
from ...data.transforms import ChannelsFirst as ToTensor

__all__ = ["CenterCrop", "Compose", "Normalize", "Resize", "ToTensor"]
