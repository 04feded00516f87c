"""The optimizer step of the Python arms, in PyTorch. What another arm does in its own way it puts
into `make_model`, `make_pass` or a subclass in `make_train_step`."""
# Shapes: A micro-batches, B rows, T positions.

import torch

import block_protocol
import ranges
import torch_ranks
from torch_model import Model

AUTOCAST_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_optimizer(config, parameters):
    """AdamW with decay on matrices only."""
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    norms = [parameter for parameter in parameters if parameter.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config["weight_decay"]},
         {"params": norms, "weight_decay": 0.0}],
        lr=config["learning_rate"], betas=(config["beta1"], config["beta2"]),
        eps=config["epsilon"], foreach=config["optimizer"] == "foreach",
        # multi_tensor is Steplens's own: the nearest thing here.
        fused=config["optimizer"] in ("fused", "multi_tensor"))


class EagerPass:
    """How the loss of a micro-batch is computed. torch_compile_step.py has one that compiles."""

    def __init__(self, config, model, arm, world):
        self.loss_sum = world.distribute(config, model)

    def prepare(self, run_pass, num_passes):
        """Before the first step; `run_pass()` does forward and backward of the first batch and
        leaves no trace. Runs it `num_passes` times at least. Returns `compile_ns` of the block, or
        None."""
        for _ in range(num_passes):
            run_pass()
        return None

    def begin_step(self):
        pass

    def num_compilations(self):
        return 0

    def summarize(self, record, warmup, steps):
        """Adds to the record's evidence, after the last step."""


make_model = Model
make_pass = EagerPass


class TrainStep:
    """One optimizer step. What it logs stays on the device until the measured steps are over."""

    def __init__(self, config, device, max_steps, arm="", world=torch_ranks.Alone()):
        self.config = config
        self.device = device
        self.world = world
        self.model = make_model(config, device)
        self.passes = make_pass(config, self.model, arm, world)
        self.optimizer = make_optimizer(config, self.model.trained())
        self.scaler = torch.amp.GradScaler(device.type, enabled=config["precision"] == "fp16")
        self.log = torch.zeros(max_steps, 2, device=device)  # Loss, gradient norm.
        self.learning_rates = []

    def autocast(self):
        dtype = AUTOCAST_TYPES.get(self.config["precision"])
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def phase(self, name):
        self.world.progress.note_range(name)
        return ranges.named(name)

    def backward(self, loss, is_last):
        """Adds the gradients of a micro-batch; `is_last` of the step's."""
        # DDP takes the mean over the ranks, and the loss is divided by the tokens of all already.
        root = loss if self.world.size == 1 else loss * self.world.size
        self.scaler.scale(root).backward()

    def accumulate(self, batch, num_loss_tokens):
        """Forward and backward of every micro-batch. The loss, on the device; of several ranks this
        one's share of it. `num_loss_tokens` are those of all ranks."""
        self.optimizer.zero_grad(set_to_none=True)
        self.passes.begin_step()
        weight = 1.0 / num_loss_tokens
        total = torch.zeros((), device=self.device)
        for i, (tokens_BT, targets_BT) in enumerate(batch):
            is_last = i + 1 == len(batch)
            with ranges.named("micro-step"), self.world.micro_step(is_last):
                with self.phase("forward"), self.autocast():
                    loss = self.passes.loss_sum(tokens_BT, targets_BT) * weight
                with self.phase("backward"):
                    self.backward(loss, is_last)
                total += loss.detach()
                if self.config["sync_every_micro_step"] == "on":
                    loss.item()
        return total

    def prepare(self, batch, num_loss_tokens):
        def run_pass():
            self.accumulate(batch, num_loss_tokens)
            self.optimizer.zero_grad(set_to_none=True)

        return self.passes.prepare(run_pass, self.world.num_passes_before_steps())

    def update(self):
        """Clips and steps. The gradients' norm before the clip, on the device."""
        with self.phase("clip"):
            self.scaler.unscale_(self.optimizer)
            norm = torch.nn.utils.clip_grad_norm_(self.model.trained(),
                                                  self.config["max_grad_norm"])
        with self.phase("optimizer"):
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return norm

    def run(self, batch, num_loss_tokens):
        total = self.accumulate(batch, num_loss_tokens)
        step_index = len(self.learning_rates)
        self.learning_rates.append(block_protocol.learning_rate_at(self.config, step_index))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rates[-1]
        norm = self.update()
        with ranges.named("other"):
            self.log[step_index].copy_(torch.stack((total, norm)))

    def fill_log(self, arrays, first):
        rows = self.log[first:first + len(arrays)].tolist()
        arrays.loss = [row[0] for row in rows]
        arrays.grad_norm = [row[1] for row in rows]
        arrays.lr = self.learning_rates[first:first + len(arrays)]


make_train_step = TrainStep
