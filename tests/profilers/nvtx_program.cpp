// A program with NVTX ranges for the library to be loaded into. Does what its arguments say, in
// order: "steps=N", "fork=N" and "spawn=N" (a child process that does N steps), "finish" (ends the
// trace itself and prints how), "abort" (ends without running its exit handlers).

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void run_steps(int num_steps) {
  static const nvtxDomainHandle_t library = nvtxDomainCreateA("library");
  static const nvtxStringHandle_t reduce = nvtxDomainRegisterStringA(library, "all-reduce");
  for (int step = 0; step < num_steps; ++step) {
    nvtxRangePushA("step");
    nvtxRangePushA("forward");
    const nvtxRangeId_t transfer = nvtxRangeStartA("transfer");
    nvtxRangePushA("block 0");
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = reduce;
    nvtxDomainRangePushEx(library, &attributes);
    nvtxDomainRangePop(library);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA("backward");
    std::jthread([&] {
      nvtxRangePushA("backward/block 0");
      nvtxRangeEnd(transfer);
      nvtxRangePop();
    }).join();
    nvtxRangePop();
    nvtxRangePop();
  }
}

void wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

void spawn(const char* program, int num_steps) {
  std::string steps = "steps=" + std::to_string(num_steps);
  std::string name = program;
  char* arguments[] = {name.data(), steps.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0) wait_for(child);
}

void finish() {
  void* library = ::dlopen(std::getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
  const auto finish_trace =
      reinterpret_cast<const char* (*)()>(::dlsym(library, "steplens_inject_finish"));
  const char* failure = finish_trace();
  std::printf("finished: %s\n", failure == nullptr ? "written" : failure);
}

}  // namespace

int main(int argc, char** argv) {
  std::setbuf(stdout, nullptr);  // In order with what goes to stderr.
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string_view verb = argument.substr(0, argument.find('='));
    int number = 0;
    if (verb.size() < argument.size()) {
      std::from_chars(argument.data() + verb.size() + 1, argument.data() + argument.size(), number);
    }
    if (verb == "steps") run_steps(number);
    if (verb == "spawn") spawn(argv[0], number);
    if (verb == "finish") finish();
    if (verb == "abort") std::_Exit(0);
    if (verb == "fork") {
      const pid_t child = ::fork();
      if (child == 0) {
        run_steps(number);
        std::exit(0);
      }
      wait_for(child);
    }
  }
  return 0;
}
