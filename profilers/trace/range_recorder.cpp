#include "profilers/trace/range_recorder.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace steplens {
namespace {

std::atomic<std::uint64_t> num_recorders = 0;

// Closed ranges that lie between open ones of other domains are let go once there are this many.
constexpr std::size_t kMaxUnkeptInstances = 1024;

std::uint64_t this_tid() { return static_cast<std::uint64_t>(::syscall(SYS_gettid)); }

}  // namespace

std::int64_t unix_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Of one thread. The thread itself changes it, under its mutex, which only a snapshot contends for.
struct RangeRecorder::ThreadState {
  struct Open {
    std::size_t instance = 0;
    std::uint32_t range = kNoRow;
    bool is_step = false;
  };
  std::mutex mutex;
  std::uint64_t tid = 0;
  std::vector<Instance> instances;
  std::size_t num_kept = 0;  // Of these, for good.
  std::int64_t last_ns = 0;  // The wall clock may be set back; a thread's times never go back.
  std::vector<std::vector<Open>> stacks = std::vector<std::vector<Open>>(1);  // By domain.
  // (domain, parent) and name to range, so that known names take no lock of the recorder.
  std::map<std::pair<DomainId, std::uint32_t>, StringMap<std::uint32_t>> known;
  std::int64_t open_step_number = -1;

  std::int64_t next_ns(Clock now_ns) { return last_ns = std::max(last_ns, now_ns()); }
  void drop_closed();
};

// Of what is not kept, leaves the open ranges only. Their parents are open too, or are forgotten.
void RangeRecorder::ThreadState::drop_closed() {
  while (instances.size() > num_kept && instances.back().end_ns != 0) instances.pop_back();
  if (instances.size() - num_kept < kMaxUnkeptInstances) return;
  std::vector<std::uint32_t> new_rows(instances.size(), kNoRow);
  std::size_t num_left = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (i >= num_kept && instances[i].end_ns != 0) continue;
    Instance instance = instances[i];
    if (instance.parent != kNoRow) instance.parent = new_rows[instance.parent];
    new_rows[i] = static_cast<std::uint32_t>(num_left);
    instances[num_left++] = instance;
  }
  instances.resize(num_left);
  for (std::vector<Open>& stack : stacks) {
    for (Open& open : stack) open.instance = new_rows[open.instance];
  }
}

RangeRecorder::RangeRecorder(StringTable& names, Clock now_ns)
    : names_(names),
      now_ns_(now_ns),
      serial_(++num_recorders) {}

RangeRecorder::~RangeRecorder() = default;

DomainId RangeRecorder::add_domain(std::string_view name) {
  const StringId id = names_.id_of(name);
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(domains_, id);
  if (it != domains_.end()) return static_cast<DomainId>(it - domains_.begin());
  domains_.push_back(id);
  return static_cast<DomainId>(domains_.size() - 1);
}

RangeRecorder::ThreadState& RangeRecorder::this_thread() {
  struct Cached {
    std::uint64_t serial = 0;
    ThreadState* state = nullptr;
  };
  thread_local Cached cached;
  if (cached.state != nullptr && cached.serial == serial_) return *cached.state;
  const std::uint64_t tid = this_tid();
  const std::lock_guard lock(mutex_);
  // A thread that alternates between two recorders comes by here often: tests do.
  auto it = std::ranges::find_if(threads_, [&](const auto& state) { return state->tid == tid; });
  if (it == threads_.end()) {
    threads_.push_back(std::make_unique<ThreadState>());
    threads_.back()->tid = tid;
    it = std::prev(threads_.end());
  }
  cached = {.serial = serial_, .state = it->get()};
  return *cached.state;
}

std::uint32_t RangeRecorder::intern(DomainId domain, std::uint32_t parent, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const StringId domain_name = domains_[domain];
  std::uint32_t node = parent;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    const StringId id = names_.id_of(part);
    const auto [it, is_new] = children_.emplace(std::tuple(node, id, domain_name),
                                                static_cast<std::uint32_t>(ranges_.size()));
    if (is_new) ranges_.push_back({.name = id, .domain = domain_name, .parent = node});
    node = it->second;
    if (slash == std::string_view::npos) return node;
    name.remove_prefix(slash + 1);
  }
}

std::uint32_t RangeRecorder::range_of(ThreadState& thread, DomainId domain, std::uint32_t parent,
                                      std::string_view name) {
  StringMap<std::uint32_t>& known = thread.known[{domain, parent}];
  if (const auto it = known.find(name); it != known.end()) return it->second;
  const std::uint32_t range = intern(domain, parent, name);
  known.emplace(std::string(name), range);
  return range;
}

int RangeRecorder::push(DomainId domain, std::string_view name) {
  ThreadState& thread = this_thread();
  int depth = 0;
  std::int64_t begun_step = -1;
  std::int64_t now_ns = 0;
  {
    const std::lock_guard lock(thread.mutex);
    if (thread.stacks.size() <= domain) thread.stacks.resize(domain + 1);
    std::vector<ThreadState::Open>& stack = thread.stacks[domain];
    const std::vector<ThreadState::Open>& own = thread.stacks[0];
    // Ranges of a library's domain lie below the program's own.
    const ThreadState::Open* around = !stack.empty() ? &stack.back()
                                      : !own.empty() ? &own.back()
                                                     : nullptr;
    const std::uint32_t range =
        range_of(thread, domain, around == nullptr ? kNoRow : around->range, name);
    depth = static_cast<int>(stack.size());
    const bool is_step =
        domain == 0 && thread.open_step_number < 0 && !step_name_.empty() && name == step_name_;
    if (is_step) begun_step = thread.open_step_number = num_steps_++;
    now_ns = thread.next_ns(now_ns_);
    thread.instances.push_back(
        {.start_ns = now_ns,
         .range = range,
         .parent = around == nullptr ? kNoRow : static_cast<std::uint32_t>(around->instance)});
    stack.push_back({.instance = thread.instances.size() - 1, .range = range, .is_step = is_step});
    if (domain == 0 && thread.open_step_number >= 0) step_thread_range_ = range;
  }
  if (begun_step >= 0 && on_step_begin_) on_step_begin_(begun_step, now_ns);
  return depth;
}

int RangeRecorder::pop(DomainId domain) {
  ThreadState& thread = this_thread();
  int depth = 0;
  std::int64_t ended_step = -1;
  std::int64_t now_ns = 0;
  {
    const std::lock_guard lock(thread.mutex);
    if (thread.stacks.size() <= domain || thread.stacks[domain].empty()) {
      ++num_stray_pops_;
      return -1;
    }
    std::vector<ThreadState::Open>& stack = thread.stacks[domain];
    const ThreadState::Open closed = stack.back();
    stack.pop_back();
    depth = static_cast<int>(stack.size());
    now_ns = thread.next_ns(now_ns_);
    thread.instances[closed.instance].end_ns = now_ns;
    if (is_kept(thread.instances[closed.instance])) {
      thread.num_kept = std::max(thread.num_kept, closed.instance + 1);
    } else {
      thread.drop_closed();
    }
    if (domain == 0 && thread.open_step_number >= 0) {
      step_thread_range_ = stack.empty() ? kNoRow : stack.back().range;
    }
    if (closed.is_step) ended_step = std::exchange(thread.open_step_number, -1);
  }
  if (ended_step >= 0 && on_step_end_) on_step_end_(ended_step, now_ns);
  return depth;
}

std::uint64_t RangeRecorder::start(DomainId domain, std::string_view name) {
  const std::uint64_t tid = this_tid();
  const std::uint32_t range = intern(domain, kNoRow, name);
  const std::lock_guard lock(mutex_);
  started_.push_back(
      {.handle = ++num_started_, .instance = {.start_ns = now_ns_(), .range = range}, .tid = tid});
  return num_started_;
}

void RangeRecorder::end(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(started_, handle, &StartedRange::handle);
  if (it == started_.end()) {
    ++num_stray_pops_;
    return;
  }
  it->instance.end_ns = std::max(now_ns_(), it->instance.start_ns);
  if (is_kept(it->instance)) finished_.push_back(*it);
  started_.erase(it);
}

void RangeRecorder::watch_steps(std::string_view name, StepCallback on_begin, StepCallback on_end) {
  step_name_ = name;
  on_step_begin_ = std::move(on_begin);
  on_step_end_ = std::move(on_end);
}

void RangeRecorder::set_recording(bool is_recording) {
  if (!is_recording && is_recording_) recorded_until_ns_ = now_ns_();
  is_recording_ = is_recording;
}

std::uint32_t RangeRecorder::current_range() {
  ThreadState& thread = this_thread();
  const std::lock_guard lock(thread.mutex);
  return thread.stacks[0].empty() ? kNoRow : thread.stacks[0].back().range;
}

RangeRecorder::Snapshot RangeRecorder::snapshot() const {
  Snapshot result;
  result.num_stray_pops = num_stray_pops_;
  std::vector<ThreadState*> threads;
  std::vector<StartedRange> started;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& thread : threads_) threads.push_back(thread.get());
    started = finished_;
    started.insert(started.end(), started_.begin(), started_.end());
  }
  // One by one: a thread that pushes holds its own mutex when it takes the recorder's.
  for (ThreadState* thread : threads) {
    const std::lock_guard lock(thread->mutex);
    result.threads.push_back({.tid = thread->tid, .instances = thread->instances, .started = {}});
  }
  for (const StartedRange& range : started) {
    auto it = std::ranges::find(result.threads, range.tid, &Thread::tid);
    if (it == result.threads.end()) {
      result.threads.push_back({.tid = range.tid});
      it = std::prev(result.threads.end());
    }
    it->started.push_back(range.instance);
  }
  const std::lock_guard lock(mutex_);
  result.ranges = ranges_;  // Last: it holds all that the threads name.
  return result;
}

}  // namespace steplens
