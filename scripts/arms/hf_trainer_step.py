#!/usr/bin/env python3
"""External arm hf-trainer: the loop of Hugging Face's Trainer around its Llama, in one block.

Same tokens, initial weights, loss, clip and learning rates as the C++ step; the fused weights of
query, key and value and of gate and up are split, as that model has them. Batching, clip, loss
scaling and the order of a step are the Trainer's own; its logging, saving and evaluation are off.
Needs transformers and accelerate (pip install transformers accelerate). --help prints this text.
"""

import contextlib
import os
import sys
import tempfile
import time

import torch_step
from torch_step import torch

import block_protocol
import ranges
import torch_data
import torch_model
import torch_ranks
import torch_train_step


# ---- Weights: fused ones of torch_model.Model, and where they lie in Llama. ----


def split_rows(model, fused, layer):
    """(name of a parameter, its rows of the fused one) of a layer, in Model's order."""
    norm1, wqkv, wo, norm2, w13, w2 = fused
    prefix = f"model.layers.{layer}."
    q, k, v = wqkv.split((model.q_width, model.kv_width, model.kv_width))
    gate, up = w13.chunk(2)
    return {
        "input_layernorm.weight": norm1, "self_attn.q_proj.weight": q,
        "self_attn.k_proj.weight": k, "self_attn.v_proj.weight": v, "self_attn.o_proj.weight": wo,
        "post_attention_layernorm.weight": norm2, "mlp.gate_proj.weight": gate,
        "mlp.up_proj.weight": up, "mlp.down_proj.weight": w2,
    }, prefix


def llama_weights(model):
    """Maps names of LlamaForCausalLM's parameters to views of the model's."""
    parameters = [parameter.detach() for parameter in model.parameters]
    weights = {"model.embed_tokens.weight": parameters[0], "model.norm.weight": parameters[-2],
               "lm_head.weight": parameters[-1]}
    for layer in range(model.config["num_layers"]):
        first = 1 + layer * model.TENSORS_PER_BLOCK
        rows, prefix = split_rows(model, parameters[first:first + model.TENSORS_PER_BLOCK], layer)
        weights |= {prefix + name: values for name, values in rows.items()}
    return weights


@torch.no_grad()
def copy_weights(weights, llama, back=False):
    """Into Llama's parameters, or back out of them."""
    theirs = dict(llama.named_parameters())
    if set(theirs) != set(weights):
        raise RuntimeError(f"this transformers' Llama has other parameters: "
                           f"{sorted(set(theirs) ^ set(weights))[:4]}")
    for name, values in weights.items():
        source, target = (theirs[name], values) if back else (values, theirs[name])
        target.copy_(source)


def make_llama(config, device):
    from transformers import LlamaConfig, LlamaForCausalLM

    llama_config = LlamaConfig(
        vocab_size=config["vocab_size"], hidden_size=config["d_model"],
        intermediate_size=config["ffn_width"], num_hidden_layers=config["num_layers"],
        num_attention_heads=config["num_heads"], num_key_value_heads=config["num_kv_heads"],
        head_dim=config["head_dim"], max_position_embeddings=config["sequence_length"],
        rms_norm_eps=config["norm_epsilon"], tie_word_embeddings=False, use_cache=False,
        attention_bias=False, mlp_bias=False, attention_dropout=0.0, bos_token_id=None,
        eos_token_id=None, pad_token_id=None, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": config["rope_base"]},
        rope_theta=config["rope_base"])
    with torch.device(device):
        llama = LlamaForCausalLM(llama_config)
    llama.to(device)
    if config["frozen"] == "embeddings":
        llama.model.embed_tokens.weight.requires_grad_(False)
    return llama


# ---- Data: one dictionary a micro-batch, on the host; the Trainer moves it. ----


class MicroBatches:
    def __init__(self, batches, num_steps, is_ahead):
        self.batches = batches
        self.num_steps = num_steps
        self.loader = torch_data.Loader(batches, num_steps) if is_ahead else None
        self.wait_ns = 0  # Since it was last read.

    def __len__(self):
        return self.num_steps * self.batches.num_micro_batches

    def __iter__(self):
        for step in range(self.num_steps):
            start_ns = time.perf_counter_ns()
            batch = self.loader.take() if self.loader else self.batches.make(step)
            self.wait_ns += time.perf_counter_ns() - start_ns
            for tokens_BT, targets_BT in batch:
                # The targets are shifted already: both keys say so, to loss and token count.
                yield {"input_ids": tokens_BT, "labels": targets_BT, "shift_labels": targets_BT}

    def take_wait_ns(self):
        wait_ns, self.wait_ns = self.wait_ns, 0
        return wait_ns

    def stop(self):
        if self.loader:
            self.loader.stop()


# ---- The Trainer, watched. ----


class StepWatch:
    """What the block wants of each step, collected on the device."""

    def __init__(self, config, device, max_steps):
        self.config = config
        self.log = torch.zeros(max_steps, 2, device=device)  # Loss, gradient norm.
        self.learning_rates = []
        self.total = torch.zeros((), device=device)
        self.grad_norm = None

    def add_loss(self, loss):
        self.total += loss
        if self.config["sync_every_micro_step"] == "on":
            loss.item()

    def end_step(self):
        step_index = len(self.learning_rates)
        self.learning_rates.append(block_protocol.learning_rate_at(self.config, step_index))
        self.log[step_index].copy_(torch.stack((self.total, self.grad_norm)))
        self.total.zero_()


def make_trainer(run, llama, data, folder):
    from torch.optim.lr_scheduler import LambdaLR
    from transformers import Trainer, TrainerCallback, TrainingArguments

    config, watch = run.config, run.watch
    optimizer = torch_train_step.make_optimizer(config, [p for p in llama.parameters()
                                                   if p.requires_grad])
    scheduler = LambdaLR(optimizer, lambda step: block_protocol.learning_rate_at(config, step) /
                         config["learning_rate"])

    class WatchedTrainer(Trainer):
        def get_train_dataloader(self):
            return data

        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            watch.add_loss(loss)
            return loss

    class Steps(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            run.begin()

        def on_step_begin(self, args, state, control, **kwargs):
            run.begin_step()

        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = run.end_step()
            return control

    trainer = WatchedTrainer(
        model=llama, optimizers=(optimizer, scheduler), callbacks=[Steps()],
        args=TrainingArguments(
            output_dir=folder, max_steps=data.num_steps,
            per_device_train_batch_size=run.batches.num_rows // config["accumulation"],
            gradient_accumulation_steps=config["accumulation"],
            max_grad_norm=config["max_grad_norm"], bf16=config["precision"] == "bf16",
            fp16=config["precision"] == "fp16", tf32=None, use_cpu=not run.is_cuda,
            gradient_checkpointing=config["checkpoint"] == "full",
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_strategy="no", save_strategy="no", eval_strategy="no", report_to=[],
            disable_tqdm=True, seed=config["seed"]))
    clip = trainer.accelerator.clip_grad_norm_

    def watched_clip(*args, **kwargs):
        watch.grad_norm = clip(*args, **kwargs)
        return watch.grad_norm

    trainer.accelerator.clip_grad_norm_ = watched_clip
    return trainer


# ---- Block. ----


class TrainerRun(torch_step.BlockRun):
    """A block whose loop is the Trainer's: it calls begin, begin_step and end_step."""

    def run(self):
        num_steps = self.num_warmup + self.num_measured
        self.record["environment"] = self.environment()
        if self.block["kind"] in ("trace", "graph-trace", "counters"):
            ranges.enable()
        model = torch_model.Model(self.config, self.device)
        self.record["weights_hash"] = model.weights_hash()
        weights = llama_weights(model)
        llama = make_llama(self.config, self.device)
        copy_weights(weights, llama)
        self.batches = torch_data.Batches(self.file, self.config,
                                          self.block["first_data_step_index"], num_steps,
                                          self.num_warmup)
        self.watch = StepWatch(self.config, self.device, num_steps)
        self.all = block_protocol.StepArrays()
        self.detector = block_protocol.WarmupDetector()
        self.times = []  # (wall_ns, gpu_ns, total_ns) of each phase that has ended.
        self.num_fed = self.elapsed_ns = 0
        self.sampler = None  # Of the measured steps: a pilot has none.
        self.data = MicroBatches(self.batches, num_steps, self.config["data"] != "sync")
        backend = torch_step.BACKENDS[self.config["attention"]]
        try:
            with tempfile.TemporaryDirectory() as folder, torch_step.sdpa_kernel([backend]):
                make_trainer(self, llama, self.data, folder).train()
        finally:
            self.data.stop()
        self.times.append(self.step_clock.finish())
        if self.sampler is not None:
            self.record["samples"] = self.sampler.stop()
        self.fill_record(model, weights, llama)

    def begin(self):
        if self.is_cuda:
            torch.cuda.empty_cache()
        self.step_clock = self.clock()
        self.num_events_before = self.num_events()
        self.step_clock.start()

    def begin_step(self):
        self.step_range = contextlib.ExitStack()
        self.step_range.enter_context(ranges.named("step"))

    def end_step(self):
        """True where the Trainer shall stop."""
        self.watch.end_step()
        self.step_range.close()
        step = self.num_steps_run
        self.num_steps_run += 1
        for name, count in zip(("num_positions", "num_valid_tokens", "num_loss_tokens"),
                               self.batches.counts(step)):
            getattr(self.all, name).append(count)
        self.all.data_wait_ns.append(self.data.take_wait_ns())
        num_events = self.num_events()
        self.events.append(num_events != self.num_events_before)
        self.num_events_before = num_events
        step_ns = self.step_clock.end_step()
        if self.block["kind"] == "pilot":
            return self.has_settled(step_ns)
        if self.num_steps_run == self.num_warmup:
            self.times.append(self.step_clock.finish())
            self.reset_memory_peaks()
            self.sampler = self.make_sampler()
            self.step_clock.start()
            self.sampler.start()
        return False

    def has_settled(self, step_ns):
        if step_ns is None:
            return False
        self.elapsed_ns += step_ns
        self.num_fed += 1
        return (self.detector.feed(step_ns, self.events[self.num_fed - 1]) or
                self.elapsed_ns > self.block.get("max_pilot_s", 60) * 1e9)

    def num_events(self):
        return self.num_allocator_events()

    def fill_record(self, model, weights, llama):
        arrays = self.all
        arrays.step_wall_ns = [ns for wall_ns, _, _ in self.times for ns in wall_ns]
        arrays.step_gpu_ns = [ns for _, gpu_ns, _ in self.times for ns in gpu_ns]
        rows = self.watch.log[:self.num_steps_run].tolist()
        arrays.loss, arrays.grad_norm = [row[0] for row in rows], [row[1] for row in rows]
        arrays.lr = self.watch.learning_rates
        evidence, num_warmup = self.record["evidence"], self.num_warmup
        if self.block["kind"] == "pilot":
            is_settled = self.detector.num_warmup_steps is not None
            num_warmup = self.detector.num_warmup_steps if is_settled else len(arrays) // 2
            evidence |= {"detected_warmup_steps": num_warmup, "warmup_settled": is_settled}
        else:
            for step_ns, had_event in zip(arrays.step_wall_ns, self.events):
                self.detector.feed(step_ns, had_event)
            detected = self.detector.num_warmup_steps
            evidence |= {"detected_warmup_steps": detected,
                         "warmup_disagrees": detected is None or detected > num_warmup}
        warmup, steps = arrays.split(num_warmup)
        self.record["warmup"], self.record["steps"] = warmup.to_json(), steps.to_json()
        self.record["measured_wall_ns"] = (sum(steps.step_wall_ns)
                                           if self.block["kind"] == "pilot" else self.times[-1][2])
        self.record["memory"] = self.memory()
        self.fill_data_hashes()
        copy_weights(weights, llama, back=True)
        self.record["final_weights_hash"] = model.weights_hash()
        self.check_finite()


if __name__ == "__main__":
    # It looks for models on the network otherwise, and for trackers that report to it.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
                   "TRANSFORMERS_VERBOSITY": "error"}
    torch_step.FURTHER_REFUSALS.append(torch_ranks.why_only_one_rank)
    torch_step.need("transformers", "accelerate", install="pip install transformers accelerate")
    torch_step.BlockRun = TrainerRun
    sys.exit(torch_step.main(__doc__))
