#include "reports/import/chrome_import.h"

#include <system_error>

#include <fmt/format.h>

#include "harness/error.h"
#include "reports/import/chrome_reader.h"
#include "reports/import/chrome_rows.h"
#include "reports/import/tolerant_json.h"

namespace steplens {
namespace {

Trace import_from(TolerantJson& source, const std::string& name, const std::string& file_name,
                  std::int64_t num_bytes, const RowProgress& progress) {
  ChromeRows rows(name);
  ChromeReader reader(source, rows);
  const TolerantJson::Token end = reader.read([&] {
    if ((rows.num_events() & 0xFFF) == 0 && progress) {
      progress(source.num_read_bytes(), num_bytes);
    }
  });
  // The format lets a list of events end without its bracket.
  const bool is_cut = end == TolerantJson::Token::kCut && rows.num_events() > 0;
  if (end != TolerantJson::Token::kEnd && !is_cut) {
    throw ConfigError(fmt::format("{}: damaged JSON near byte {}: {}", name,
                                  source.num_read_bytes(),
                                  source.error().empty() ? "it ends here" : source.error()));
  }
  if (!reader.has_events_list()) {
    throw ConfigError(fmt::format("{}: JSON, but no trace: it has no traceEvents", name));
  }
  return rows.finish(is_cut && !reader.is_between_events(), source.num_mended(), file_name);
}

}  // namespace

Trace import_chrome_json(const std::filesystem::path& path, const RowProgress& progress) {
  TolerantJson source(path);
  std::error_code ignored;
  const bool is_compressed = source.is_compressed();
  const auto num_bytes =
      is_compressed ? 0 : static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  return import_from(source, path.string(), path.filename().string(), num_bytes, progress);
}

Trace import_chrome_text(std::string_view text, const std::string& name) {
  TolerantJson source(text);
  return import_from(source, name, name, std::ssize(text), {});
}

}  // namespace steplens
