#include "workloads/parallel/world.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/ranks/rank_progress.h"
#include "workloads/autograd_ranges.h"
#include "workloads/parallel/lone_backend.h"
#include "workloads/parallel/mpi/mpi_backend.h"
#include "workloads/parallel/world_state.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kLoopback = "127.0.0.1";
constexpr auto kRendezvousPoll = std::chrono::milliseconds(10);

std::chrono::milliseconds timeout_of(const BlockConfig& block) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(block.collective_timeout_s * 1000));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.");
}

// A socket that listens on `port` (0: a free one, which it then holds) of the loopback interface,
// or of all interfaces for ranks on other hosts. c10d's own server would always take all.
struct ListeningSocket {
  int fd = -1;
  std::uint16_t port = 0;
};
ListeningSocket listen_on(std::uint16_t port, bool is_local) {
  const auto fail = [&] {
    const int cause = errno;
    throw ConfigError(fmt::format(
        "MASTER_PORT={}: rank 0 cannot listen there: {}{}", port, std::strerror(cause),
        cause == EADDRINUSE ? "; name a free port, or none with Steplens's own launcher" : ""));
  };
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(is_local ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, generic, length) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, generic, &length) != 0) {
    fail();
  }
  return {.fd = fd, .port = ntohs(address.sin_port)};
}

// Where the ranks meet that a launcher gave no address: rank 0 leaves its port in their folder.
std::uint16_t read_port(const fs::path& path, std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (!fs::exists(path)) {
    if (Clock::now() > end) {
      throw DeviceError(fmt::format("rank 0 did not come within {} s: there is no {}",
                                    timeout.count() / 1000, path.string()));
    }
    std::this_thread::sleep_for(kRendezvousPoll);
  }
  return read_json(path).at("port").get<std::uint16_t>();
}

c10::intrusive_ptr<c10d::TCPStore> meet(const BlockConfig& block, const RankPlace& place) {
  const bool is_ours = place.master_address.empty();
  const std::string address = is_ours ? kLoopback : place.master_address;
  const fs::path rendezvous = block.output_folder / kRendezvousFileName;
  c10d::TCPStoreOptions options;
  options.port = place.master_port;
  options.isServer = place.rank == 0 && !place.is_store_of_launcher;
  options.waitWorkers = false;
  options.timeout = timeout_of(block);
  if (options.isServer) {
    const ListeningSocket socket = listen_on(place.master_port, is_loopback(address));
    options.masterListenFd = socket.fd;
    options.port = socket.port;
    if (is_ours) write_json_atomically(rendezvous, {{"port", socket.port}});
  } else if (is_ours) {
    options.port = read_port(rendezvous, options.timeout);
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw DeviceError(fmt::format("rank {} cannot reach rank 0 at {}:{}: {}", place.rank, address,
                                  options.port, text.substr(0, text.find('\n'))));
  }
}

// c10d's watchdog ends the process from a thread of its own when a collective takes too long or
// NCCL fails. What it says is noted first: else this rank would look like the one that died.
[[noreturn]] void note_and_end() {
  std::string reason = "ended by an error that nothing caught";
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const c10::Error& error) {
    reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
  }
  reason = reason.substr(0, reason.find('\n'));
  const bool has_waited = reason.find("timeout") != std::string::npos;
  std::fprintf(stderr, "steplens-worker: %s\n", reason.c_str());
  note_rank_end(RankState::kFailed, has_waited ? std::string(kWaitedForRanks) + reason : reason);
  std::_Exit(3);
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BlockConfig& block,
                                                    const RankPlace& place,
                                                    const c10::intrusive_ptr<c10d::Store>& store) {
  if (place.master_address.empty() || is_loopback(place.master_address)) {
    ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  }
  // After a timeout it would write its own log of collectives, and wait a minute before it ends.
  ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*overwrite=*/0);
  ::setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", /*overwrite=*/0);
  std::set_terminate(&note_and_end);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout_of(block);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.world_size, options);
}

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const BlockConfig& block,
                                                   const RankPlace& place) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path path = program.parent_path().parent_path() / "lib" / "libsteplens_mpi.so";
  // Global: Open MPI's own plug-ins look for its symbols there.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw ConfigError(fmt::format(
        "ranks={}: CPU ranks exchange gradients over MPI, and that part cannot be loaded ({}); "
        "apt-get install openmpi-bin, and libopenmpi-dev before the build",
        place.world_size, ::dlerror()));
  }
  auto* make = reinterpret_cast<MakeMpiBackend*>(::dlsym(library, kMakeMpiBackendSymbol));
  if (make == nullptr) throw ConfigError("libsteplens_mpi.so is of another version");
  std::string failure;
  auto backend = make({.rank = place.rank,
                       .world_size = place.world_size,
                       .timeout_s = block.collective_timeout_s,
                       .on_collective_begin =
                           [](const char* name) {
                             note_collective();
                             begin_collective_range(name);
                           },
                       .on_collective_end = end_collective_range},
                      failure);
  if (!backend) throw ConfigError(fmt::format("ranks={}: {}", place.world_size, failure));
  return backend;
}

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}

World::~World() {
  // Ends NCCL's communicators and c10d's threads in order; a no-op over MPI.
  if (state_->group) state_->group->shutdown();
}

std::unique_ptr<World> World::join(const BlockConfig& block, const RankPlace& place) {
  auto state = std::make_unique<State>();
  state->rank = place.rank;
  state->size = place.world_size;
  state->store = meet(block, place);
  state->group =
      c10::make_intrusive<c10d::ProcessGroup>(state->store, place.rank, place.world_size);
  const bool is_cuda = block.config.device == Device::kCuda;
  const auto backend = is_cuda                 ? make_nccl_backend(block, place, state->store)
                       : place.world_size == 1 ? make_lone_backend()
                                               : make_mpi_backend(block, place);
  const auto type =
      is_cuda ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::CUSTOM;
  state->group->setBackend(is_cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU, type, backend);
  state->group->setDefaultBackend(type);
  return std::unique_ptr<World>(new World(std::move(state)));
}

int World::rank() const { return state_->rank; }
int World::size() const { return state_->size; }
c10d::ProcessGroup& World::group() const { return *state_->group; }

std::string World::from_rank_0(std::string_view text) {
  const std::string key = fmt::format("said/{}", state_->num_talks++);
  if (state_->rank == 0) {
    state_->store->set(key, bytes_of(text));
    return std::string(text);
  }
  const std::vector<std::uint8_t> bytes = state_->store->get(key);
  return {bytes.begin(), bytes.end()};
}

ClockOffset World::clock_offset() {
  constexpr int kNumQuestions = 8;
  const std::int64_t talk = state_->num_talks++;
  const auto now_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  c10d::TCPStore& store = *state_->store;
  ClockOffset best;
  // One rank after the other: rank 0 must answer at once.
  for (int rank = 1; rank < state_->size; ++rank) {
    for (int i = 0; i < kNumQuestions; ++i) {
      const std::string question = fmt::format("clock/{}/{}/{}?", talk, rank, i);
      const std::string answer = fmt::format("clock/{}/{}/{}!", talk, rank, i);
      if (state_->rank == 0) {
        store.get(question);
        store.set(answer, bytes_of(std::to_string(now_ns())));
      } else if (state_->rank == rank) {
        const std::int64_t asked_ns = now_ns();
        store.set(question, bytes_of("?"));
        const std::vector<std::uint8_t> bytes = store.get(answer);
        const std::int64_t half_ns = (now_ns() - asked_ns) / 2;
        if (i > 0 && half_ns >= best.uncertainty_ns) continue;
        const std::int64_t answered_ns = std::stoll(std::string(bytes.begin(), bytes.end()));
        best = {.offset_ns = asked_ns + half_ns - answered_ns, .uncertainty_ns = half_ns};
      }
    }
  }
  return best;
}

std::vector<std::string> World::gather(std::string_view text) {
  const std::int64_t talk = state_->num_talks++;
  const auto key_of = [&](int rank) { return fmt::format("gathered/{}/{}", talk, rank); };
  if (state_->rank != 0) {
    state_->store->set(key_of(state_->rank), bytes_of(text));
    return {};
  }
  std::vector<std::string> texts = {std::string(text)};
  for (int rank = 1; rank < state_->size; ++rank) {
    const std::vector<std::uint8_t> bytes = state_->store->get(key_of(rank));
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  return texts;
}

}  // namespace steplens
