#include "viewer/app/loader.h"

#include <atomic>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "viewer/data/trace_model.h"

namespace steplens {

struct Loader::Job {
  enum class Kind { kDocument, kModel, kBreakdown };

  Kind kind = Kind::kDocument;
  std::string what;
  std::vector<std::filesystem::path> paths;
  std::shared_ptr<const SweepModel> sweep;  // Not null: its point is opened, not `paths`.
  std::size_t point_index = 0;
  std::string arm;
  std::string reference;
  bool is_memory_run = false;
  std::optional<double> throughput_step_ns;
  LoadProgress progress;

  // Written by the thread before `is_done`, read after it.
  std::optional<Document> document;
  std::shared_ptr<const TraceModel> model;
  std::shared_ptr<const TracedArm> breakdown;
  std::string error;
  std::atomic<bool> is_done = false;

  void work() {
    switch (kind) {
      case Kind::kDocument:
        document = sweep ? open_sweep_point(sweep, point_index) : open_document(paths);
        break;
      case Kind::kModel: model = load_trace_model(paths.front(), progress); break;
      case Kind::kBreakdown: {
        const Trace trace = read_any_trace(paths.front(), progress);
        progress.stage = "breaking down";
        breakdown =
            std::make_shared<TracedArm>(TracedArm{.arm = arm,
                                                  .reference = reference,
                                                  .breakdown = compute_breakdown(trace),
                                                  .throughput_step_ns = throughput_step_ns,
                                                  .communication = compute_communication(trace)});
        break;
      }
    }
  }
};

Loader::Loader(std::function<void()> wake) : wake_(std::move(wake)) {}

Loader::~Loader() {
  if (job_ != nullptr) job_->progress.cancel();
  finish_thread();
}

void Loader::finish_thread() {
  if (thread_.joinable()) thread_.join();
}

void Loader::start(std::shared_ptr<Job> job) {
  if (job_ != nullptr) job_->progress.cancel();
  finish_thread();
  job_ = std::move(job);
  thread_ = std::thread([this, running = job_] {
    try {
      running->work();
    } catch (const std::exception& error) {
      running->error = error.what();
    }
    running->is_done = true;
    wake_();
  });
}

void Loader::open(std::vector<std::filesystem::path> paths) {
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::kDocument;
  job->what = paths.empty() ? std::string() : paths.front().filename().string();
  job->paths = std::move(paths);
  start(std::move(job));
}

void Loader::open_point(std::shared_ptr<const SweepModel> sweep, std::size_t point_index) {
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::kDocument;
  job->what = sweep->results.points.at(point_index).value;
  job->sweep = std::move(sweep);
  job->point_index = point_index;
  start(std::move(job));
}

std::optional<Loader::Opened> Loader::take_opened() {
  if (job_ == nullptr || !job_->is_done || job_->kind != Job::Kind::kDocument) return std::nullopt;
  finish_thread();
  const std::shared_ptr<Job> done = std::exchange(job_, nullptr);
  return Opened{.document = std::move(done->document), .error = done->error};
}

void Loader::serve(Document& document) {
  if (job_ != nullptr) {
    if (!job_->is_done || job_->kind == Job::Kind::kDocument) return;
    finish_thread();
    const std::shared_ptr<Job> done = std::exchange(job_, nullptr);
    if (TraceEntry* entry = document.find_trace(done->arm, done->is_memory_run)) {
      if (done->kind == Job::Kind::kModel) {
        entry->model = done->model;
        entry->error = done->error;
      } else {
        entry->breakdown = done->breakdown;
        entry->breakdown_error = done->error;
      }
    }
  }
  for (TraceEntry& entry : document.traces) {
    const bool wants_model = entry.is_wanted && entry.model == nullptr && entry.error.empty();
    const bool wants_breakdown =
        entry.is_breakdown_wanted && entry.breakdown == nullptr && entry.breakdown_error.empty();
    if (!wants_model && !wants_breakdown) continue;
    auto job = std::make_shared<Job>();
    job->kind = wants_model ? Job::Kind::kModel : Job::Kind::kBreakdown;
    job->what = fmt::format("{} of {}", entry.is_memory_run ? "memory trace" : "trace", entry.arm);
    job->paths = {entry.path};
    job->arm = entry.arm;
    job->reference = document.reference_of(entry.arm);
    job->is_memory_run = entry.is_memory_run;
    if (document.bundle != nullptr) {
      const ArmResult* row = find_arm(document.bundle->results, entry.arm);
      if (row != nullptr) job->throughput_step_ns = row->step_wall_ns;
    }
    start(std::move(job));
    return;
  }
}

std::optional<JobStatus> Loader::status() const {
  if (job_ == nullptr || job_->is_done) return std::nullopt;
  return JobStatus{.what = job_->what,
                   .stage = job_->progress.stage.load(),
                   .done_ratio = job_->progress.done_ratio()};
}

void Loader::cancel() {
  if (job_ != nullptr) job_->progress.cancel();
}

}  // namespace steplens
