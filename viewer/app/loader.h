#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "viewer/data/document.h"
#include "viewer/data/load_progress.h"

namespace steplens {

/// What a background job is about, for the progress bar.
struct JobStatus {
  std::string what;       // "trace of graph=on"
  std::string stage;      // "reading"
  float done_ratio = -1;  // 0 to 1; negative: unknown.
};

/// Opens documents and what their panels want, one job after the other on a thread of its own.
/// All functions are for the thread that draws.
class Loader {
 public:
  /// `wake` is called from the job's thread whenever there is something to collect.
  explicit Loader(std::function<void()> wake);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Gives up what runs, and opens these paths.
  void open(std::vector<std::filesystem::path> paths);
  /// The same for another point of a sweep.
  void open_point(std::shared_ptr<const SweepModel> sweep, std::size_t point_index);

  struct Opened {
    std::optional<Document> document;
    std::string error;  // Of what could not be opened.
  };
  /// The document that was asked for, once; absent while it is not there.
  std::optional<Opened> take_opened();

  /// Puts what is ready into the document, and starts a job for the next thing wanted.
  void serve(Document& document);

  /// What runs now.
  std::optional<JobStatus> status() const;
  bool is_busy() const { return job_ != nullptr; }
  /// Gives up what runs. What it was to load gets an error that says so.
  void cancel();

 private:
  struct Job;

  void start(std::shared_ptr<Job> job);
  void finish_thread();

  std::function<void()> wake_;
  std::shared_ptr<Job> job_;
  std::thread thread_;
};

}  // namespace steplens
