#include "workloads/catalog/prepare_data.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

[[noreturn]] void fail(const fs::path& path, std::string_view what, int error) {
  throw ConfigError(fmt::format("{}: {}: {}", path.string(), what,
                                std::error_code(error, std::generic_category()).message()));
}

// The .bin under a temporary name until `publish`; removed if that is never reached.
class TokenWriter {
 public:
  explicit TokenWriter(const fs::path& path)
      : path_(path),
        temporary_(path.string() + fmt::format(".tmp-{}", ::getpid())) {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail(path_, "cannot write", errno);
    buffer_.reserve(kChunkBytes);
  }
  ~TokenWriter() {
    if (fd_ >= 0) ::close(fd_);
    if (!is_published_) ::unlink(temporary_.c_str());
  }
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void add(std::uint16_t token) {
    buffer_.push_back(token);
    ++num_tokens_;
    if (buffer_.size() == kChunkBytes) flush();
  }
  std::int64_t num_tokens() const { return num_tokens_; }

  // Returns the SHA-256 of the file.
  std::string publish() {
    flush();
    if (::fsync(fd_) != 0) fail(path_, "cannot write", errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "cannot write", errno);
    std::string sha256 = sha256_file_hex(temporary_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail(path_, "cannot rename into place", errno);
    }
    is_published_ = true;
    return sha256;
  }

 private:
  void flush() {
    const auto* bytes = reinterpret_cast<const char*>(buffer_.data());
    const std::size_t size = buffer_.size() * sizeof(std::uint16_t);
    std::size_t written = 0;
    while (written < size) {
      const ssize_t count = ::write(fd_, bytes + written, size - written);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(path_, "cannot write", errno);
      written += static_cast<std::size_t>(count);
    }
    buffer_.clear();
  }

  fs::path path_;
  fs::path temporary_;
  int fd_ = -1;
  bool is_published_ = false;
  std::int64_t num_tokens_ = 0;
  std::vector<std::uint16_t> buffer_;
};

template <typename F>
void for_each_chunk(const fs::path& path, F&& visit) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "cannot read", errno != 0 ? errno : ENOENT);
  std::string buffer(kChunkBytes, '\0');
  while (stream) {
    stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto size = static_cast<std::size_t>(stream.gcount());
    if (size > 0 && !visit(std::string_view(buffer.data(), size))) return;
  }
  if (stream.bad()) fail(path, "cannot read", EIO);
}

bool is_binary(const fs::path& path) {
  bool has_nul = false;
  for_each_chunk(path, [&](std::string_view chunk) {
    has_nul = chunk.find('\0') != std::string_view::npos;
    return !has_nul;
  });
  return has_nul;
}

bool matches(const std::vector<std::string>& patterns, const fs::path& path) {
  const std::string name = path.filename().string();
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
         });
}

// What an earlier run left in a folder that is walked is no text of the corpus.
bool is_own_output(const fs::path& path, const fs::path& output) {
  const fs::path folder = fs::absolute(output).lexically_normal().parent_path();
  const std::string name = path.filename().string();
  const std::string stem = output.stem().string();
  return fs::absolute(path).lexically_normal().parent_path() == folder &&
         (name == output.filename() || name == stem + ".json" || name == stem + ".tokenizer.json" ||
          name.starts_with(output.filename().string() + ".tmp-"));
}

std::vector<fs::path> files_below(const fs::path& folder, const PrepareOptions& options) {
  std::vector<std::pair<std::string, fs::path>> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && matches(options.patterns, entry.path()) &&
        !is_own_output(entry.path(), options.output)) {
      found.emplace_back(entry.path().lexically_relative(folder).generic_string(), entry.path());
    }
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [relative, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::vector<fs::path> corpus_files(const PrepareOptions& options) {
  std::vector<fs::path> paths;
  for (const fs::path& input : options.inputs) {
    if (!fs::exists(input)) fail(input, "cannot read", ENOENT);
    if (!fs::is_directory(input)) {
      paths.push_back(input);  // Named by the user: taken whatever its name.
      continue;
    }
    try {
      for (fs::path& path : files_below(input, options)) paths.push_back(std::move(path));
    } catch (const fs::filesystem_error& error) {
      throw ConfigError(
          fmt::format("{}: cannot walk the folder: {}", input.string(), error.what()));
    }
  }
  return paths;
}

// The name of a folder or file alone: a report must not show the machine's paths.
std::vector<std::string> input_names(const PrepareOptions& options) {
  std::vector<std::string> names;
  names.reserve(options.inputs.size());
  for (const fs::path& input : options.inputs) {
    const fs::path normal = fs::absolute(input).lexically_normal();
    names.push_back((normal.has_filename() ? normal : normal.parent_path()).filename().string());
  }
  return names;
}

[[noreturn]] void fail_with_no_text(const PrepareOptions& options, const PreparedData& data) {
  std::vector<std::string> inputs;
  inputs.reserve(options.inputs.size());
  for (const fs::path& input : options.inputs) inputs.push_back(input.string());
  throw ConfigError(fmt::format(
      "no text in {} with names like {}: {} binary and {} empty files were skipped",
      fmt::join(inputs, ", "),
      options.patterns.empty() ? "*" : fmt::to_string(fmt::join(options.patterns, ", ")),
      data.num_binary_files, data.num_empty_files));
}

PreparedData prepare_bytes(const PrepareOptions& options) {
  const std::vector<fs::path> paths = corpus_files(options);
  PreparedData data;
  TokenWriter writer(options.output);
  std::optional<char> first_byte;
  bool is_constant = true;
  PrepareProgress progress{.num_files = static_cast<std::int64_t>(paths.size())};
  for (const fs::path& path : paths) {
    if (is_binary(path)) {
      ++data.num_binary_files;
    } else {
      const std::int64_t before = writer.num_tokens();
      for_each_chunk(path, [&](std::string_view chunk) {
        if (!first_byte) first_byte = chunk.front();
        for (const char byte : chunk) {
          is_constant = is_constant && byte == *first_byte;
          writer.add(static_cast<unsigned char>(byte));
        }
        return true;
      });
      const std::int64_t num_bytes = writer.num_tokens() - before;
      if (num_bytes == 0) {
        ++data.num_empty_files;
      } else {
        writer.add(static_cast<std::uint16_t>(kByteDocumentEnd));
        ++data.num_files;
        data.num_text_bytes += num_bytes;
      }
    }
    ++progress.num_files_done;
    progress.num_text_bytes = data.num_text_bytes;
    if (options.on_progress) options.on_progress(progress);
  }
  if (data.num_files == 0) fail_with_no_text(options, data);
  if (is_constant) {
    throw ConfigError(fmt::format(
        "{}: the text is one byte repeated: zeros or constants are no text, so nothing is measured "
        "on them",
        options.output.string()));
  }

  data.info = {.name = options.name,
               .tokenizer = "bytes",
               .dtype = TokenType::kUint16,
               .vocab_size = kByteVocabSize,
               .max_token = kByteDocumentEnd,
               .num_tokens = writer.num_tokens(),
               .num_documents = data.num_files,
               .document_end_token = kByteDocumentEnd,
               .sha256 = writer.publish(),
               .source = {{"inputs", input_names(options)},
                          {"patterns", options.patterns},
                          {"num_files", data.num_files},
                          {"num_binary_files", data.num_binary_files},
                          {"num_empty_files", data.num_empty_files},
                          {"num_text_bytes", data.num_text_bytes}}};
  write_json_atomically(info_path(options.output), to_json(data.info));
  return data;
}

// Runs a program to its end with its output on our stderr, so that a table on stdout stays clean.
int exit_code_of(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(words[0], "cannot start", error);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail(words[0], "cannot wait for it", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

PreparedData prepare_bpe(const PrepareOptions& options) {
  if (!fs::exists(options.bpe_script)) fail(options.bpe_script, "cannot read", ENOENT);
  std::vector<std::string> words = {options.python.string(),
                                    options.bpe_script.string(),
                                    "--output",
                                    options.output.string(),
                                    "--name",
                                    options.name,
                                    "--vocab-size",
                                    fmt::to_string(options.vocab_size)};
  for (const std::string& pattern : options.patterns) {
    words.insert(words.end(), {"--pattern", pattern});
  }
  words.emplace_back("--");
  for (const fs::path& input : options.inputs) words.push_back(input.string());
  const int exit_code = exit_code_of(words);
  if (exit_code != 0) {
    throw ConfigError(fmt::format("{}: ended with exit code {}; its message stands above",
                                  options.bpe_script.filename().string(), exit_code));
  }
  const TokenFile file(options.output);
  const nlohmann::json& source = file.info().source;
  return {.info = file.info(),
          .num_files = source.value("num_files", std::int64_t{0}),
          .num_binary_files = source.value("num_binary_files", std::int64_t{0}),
          .num_empty_files = source.value("num_empty_files", std::int64_t{0}),
          .num_text_bytes = source.value("num_text_bytes", std::int64_t{0})};
}

}  // namespace

PreparedData prepare_data(const PrepareOptions& options) {
  if (options.inputs.empty()) throw ConfigError("inputs: name at least one file or folder of text");
  if (options.name.empty()) throw ConfigError("name: the corpus needs a name");
  if (options.output.extension() != ".bin") {
    throw ConfigError(fmt::format("output={}: must end with .bin", options.output.string()));
  }
  if (options.tokenizer != "bytes" && options.tokenizer != "bpe") {
    throw ConfigError(
        fmt::format("tokenizer={}: not allowed; takes bytes | bpe", options.tokenizer));
  }
  if (options.output.has_parent_path()) {
    std::error_code error;
    fs::create_directories(options.output.parent_path(), error);
    if (error) fail(options.output.parent_path(), "cannot make the folder", error.value());
  }
  return options.tokenizer == "bytes" ? prepare_bytes(options) : prepare_bpe(options);
}

PrepareOptions torch_python_corpus(const fs::path& site_packages, const fs::path& output) {
  const fs::path folder = site_packages / "torch";
  if (!fs::is_directory(folder)) {
    throw ConfigError(fmt::format("{}: has no folder torch; name the site-packages of LibTorch",
                                  site_packages.string()));
  }
  PrepareOptions options;
  options.inputs = {folder};
  options.patterns = {"*.py"};
  options.output = output;
  options.name = "torch-python";
  return options;
}

}  // namespace steplens
