"""What holds for every test."""

import torch

# One thread each: workers that each start one thread a core wait for one another.
torch.set_num_threads(1)
