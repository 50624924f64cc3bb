"""What this machine's processor offers."""

import torch


def multiplies_bfloat16():
    """Whether Longshore does: oneDNN has no such products for processors without AVX-512."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"
