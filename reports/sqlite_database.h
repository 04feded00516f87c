#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace steplens {

class SqliteStatement;

/// An SQLite database. Errors are ConfigErrors that name the file and SQLite's cause.
class SqliteDatabase {
 public:
  enum class Mode {
    kRead,
    kCreate,  // A new file, without a journal: for a file that is renamed when it is whole.
  };
  /// `shown` stands for the file in messages.
  SqliteDatabase(const std::filesystem::path& path, Mode mode, std::string shown);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  void run(const std::string& sql);
  SqliteStatement prepare(std::string_view sql);
  bool has_table(std::string_view table);
  std::set<std::string> columns_of(std::string_view table);
  /// Closes it; what is wrong then is an error too.
  void close();

 private:
  friend class SqliteStatement;
  [[noreturn]] void fail() const;

  std::string shown_;
  sqlite3* database_ = nullptr;
};

/// A prepared statement: bind all, then step. Columns and parameters count from 0.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  /// Binds the next parameter. Text must live until the next `insert` or `next`.
  SqliteStatement& bind(std::int64_t value);
  SqliteStatement& bind(double value);
  SqliteStatement& bind(std::string_view text);
  SqliteStatement& bind_null();

  /// Runs an INSERT whose parameters are bound, and is ready for the next one.
  void insert();
  /// The next row; false after the last one, and then the statement is ready to be bound again.
  bool next();

  std::optional<std::int64_t> integer(int column) const;
  std::int64_t integer_or(int column, std::int64_t fallback) const;
  double real(int column) const;
  /// Empty if there is none; valid until the next row.
  std::string_view text(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteStatement(SqliteDatabase& database, std::string_view sql);

  SqliteDatabase* database_;
  sqlite3_stmt* statement_ = nullptr;
  int num_bound_ = 0;
};

}  // namespace steplens
