#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/import/chrome_event.h"
#include "reports/import/chrome_rows.h"
#include "reports/import/tolerant_json.h"

namespace steplens {

/// Finds the events in the stream of tokens.
class ChromeReader {
 public:
  /// Both outlive this.
  ChromeReader(TolerantJson& source, ChromeRows& rows) : source_(source), rows_(rows) {}

  /// Reads to the end of the document, or as far as it can be read: kEnd, kCut or kError.
  /// `on_event` is called after each event.
  template <class OnEvent>
  TolerantJson::Token read(OnEvent on_event) {
    using Token = TolerantJson::Token;
    while (true) {
      switch (const Token token = source_.next()) {
        case Token::kKey: key_ = source_.text(); break;
        case Token::kString: put_string(); break;
        case Token::kInteger: put_integer(); break;
        case Token::kDecimal: put_number(); break;
        case Token::kWord: break;
        case Token::kBeginObject: begin_object(); break;
        case Token::kEndObject:
          if (end_object()) on_event();
          break;
        case Token::kBeginArray: begin_array(); break;
        case Token::kEndArray: stack_.pop_back(); break;
        case Token::kEnd:
        case Token::kCut:
        case Token::kError: return token;
      }
    }
  }

  bool is_between_events() const { return stack_.size() == 1 && stack_.back() == Place::kEvents; }
  bool has_events_list() const { return has_events_list_; }

 private:
  enum class Place : std::uint8_t {
    kRoot,
    kEvents,
    kEvent,
    kArguments,
    kArray,
    kDevices,
    kDevice,
    kOther
  };

  Place here() const { return stack_.empty() ? Place::kOther : stack_.back(); }

  // Where the value that comes now belongs; nullptr if nobody wants it.
  ChromeValue* target() {
    if (here() == Place::kEvent) return &event_.add_member(key_);
    if (here() == Place::kArguments) return &event_.add_argument(key_);
    return nullptr;
  }

  void put_string() {
    const Place place = here();
    if (place == Place::kRoot && key_ == "steplens") {
      rows_.read_header(std::string(source_.text()));
    }
    if (place == Place::kDevice && key_ == "name") device_name_ = source_.text();
    if (ChromeValue* value = target()) value->text = source_.text();
  }

  void put_number() {
    if (ChromeValue* value = target()) {
      value->text = source_.text();
      value->is_number = true;
    }
  }

  void put_integer() {
    const std::string_view text = source_.text();
    const auto parsed = [&] {
      std::int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const Place place = here();
    if (place == Place::kArray) {
      array_->integers.push_back(parsed());
    } else if (place == Place::kRoot && key_ == "baseTimeNanoseconds") {
      rows_.set_base_ns(parsed());
    } else if (place == Place::kDevice && key_ == "id") {
      device_id_ = parsed();
    } else {
      put_number();
    }
  }

  void begin_object() {
    Place place = Place::kOther;
    if (stack_.empty()) {
      place = Place::kRoot;
    } else if (here() == Place::kEvents) {
      place = Place::kEvent;
      event_.clear();
    } else if (here() == Place::kEvent && key_ == "args") {
      place = Place::kArguments;
    } else if (here() == Place::kDevices) {
      place = Place::kDevice;
      device_id_ = -1;
      device_name_.clear();
    }
    stack_.push_back(place);
  }

  // Whether it was an event.
  bool end_object() {
    const Place place = here();
    stack_.pop_back();
    if (place == Place::kDevice) rows_.add_device(device_id_, device_name_);
    if (place != Place::kEvent) return false;
    rows_.add(event_);
    return true;
  }

  void begin_array() {
    Place place = Place::kOther;
    if (stack_.empty() || (here() == Place::kRoot && key_ == "traceEvents")) {
      place = Place::kEvents;
      has_events_list_ = true;
    } else if (here() == Place::kRoot && key_ == "deviceProperties") {
      place = Place::kDevices;
    } else if (here() == Place::kArguments) {
      place = Place::kArray;
      array_ = &event_.add_argument(key_);
    }
    stack_.push_back(place);
  }

  TolerantJson& source_;
  ChromeRows& rows_;
  std::vector<Place> stack_;
  std::string key_;
  ChromeEvent event_;
  ChromeValue* array_ = nullptr;
  std::int64_t device_id_ = -1;
  std::string device_name_;
  bool has_events_list_ = false;
};

}  // namespace steplens
