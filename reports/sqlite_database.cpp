#include "reports/sqlite_database.h"

#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "harness/error.h"

namespace steplens {

SqliteDatabase::SqliteDatabase(const std::filesystem::path& path, Mode mode, std::string shown)
    : shown_(std::move(shown)) {
  const int flags =
      mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (::sqlite3_open_v2(path.c_str(), &database_, flags | SQLITE_OPEN_NOMUTEX, nullptr) !=
      SQLITE_OK) {
    const std::string cause = database_ == nullptr ? "out of memory" : ::sqlite3_errmsg(database_);
    ::sqlite3_close(database_);
    throw ConfigError(fmt::format("{}: {}", shown_, cause));
  }
  if (mode == Mode::kCreate) {
    run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;");
  }
}

SqliteDatabase::~SqliteDatabase() { ::sqlite3_close(database_); }

void SqliteDatabase::fail() const {
  throw ConfigError(fmt::format("{}: SQLite: {}", shown_, ::sqlite3_errmsg(database_)));
}

void SqliteDatabase::run(const std::string& sql) {
  if (::sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

SqliteStatement SqliteDatabase::prepare(std::string_view sql) { return {*this, sql}; }

bool SqliteDatabase::has_table(std::string_view table) {
  SqliteStatement statement =
      prepare("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?");
  return statement.bind(table).next();
}

std::set<std::string> SqliteDatabase::columns_of(std::string_view table) {
  SqliteStatement statement = prepare("SELECT name FROM pragma_table_info(?)");
  statement.bind(table);
  std::set<std::string> columns;
  while (statement.next()) columns.emplace(statement.text(0));
  return columns;
}

void SqliteDatabase::close() {
  if (::sqlite3_close(database_) != SQLITE_OK) fail();
  database_ = nullptr;
}

SqliteStatement::SqliteStatement(SqliteDatabase& database, std::string_view sql)
    : database_(&database) {
  if (::sqlite3_prepare_v2(database.database_, sql.data(), static_cast<int>(sql.size()),
                           &statement_, nullptr) != SQLITE_OK) {
    database.fail();
  }
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      num_bound_(other.num_bound_) {}

SqliteStatement::~SqliteStatement() { ::sqlite3_finalize(statement_); }

SqliteStatement& SqliteStatement::bind(std::int64_t value) {
  if (::sqlite3_bind_int64(statement_, ++num_bound_, value) != SQLITE_OK) database_->fail();
  return *this;
}

SqliteStatement& SqliteStatement::bind(double value) {
  if (::sqlite3_bind_double(statement_, ++num_bound_, value) != SQLITE_OK) database_->fail();
  return *this;
}

SqliteStatement& SqliteStatement::bind(std::string_view text) {
  // A null pointer would bind NULL.
  const char* data = text.empty() ? "" : text.data();
  if (::sqlite3_bind_text(statement_, ++num_bound_, data, static_cast<int>(text.size()),
                          SQLITE_STATIC) != SQLITE_OK) {
    database_->fail();
  }
  return *this;
}

SqliteStatement& SqliteStatement::bind_null() {
  if (::sqlite3_bind_null(statement_, ++num_bound_) != SQLITE_OK) database_->fail();
  return *this;
}

void SqliteStatement::insert() { SL_CHECK(!next()); }

bool SqliteStatement::next() {
  const int code = ::sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_->fail();
  ::sqlite3_reset(statement_);
  num_bound_ = 0;
  return false;
}

std::optional<std::int64_t> SqliteStatement::integer(int column) const {
  if (::sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return ::sqlite3_column_int64(statement_, column);
}

std::int64_t SqliteStatement::integer_or(int column, std::int64_t fallback) const {
  return integer(column).value_or(fallback);
}

double SqliteStatement::real(int column) const {
  return ::sqlite3_column_double(statement_, column);
}

std::string_view SqliteStatement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(::sqlite3_column_text(statement_, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

}  // namespace steplens
