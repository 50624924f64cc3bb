// StrictJson reads JSON from untrusted files event by event, so that nothing is built that was not
// expected, and duplicate keys are seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longshore {

// What the parser makes of a number that is no integer of 64 bits. JSON allows any number, the
// parser no infinite one: a number beyond float64 passes for the largest.
class JsonFloat {
 public:
  JsonFloat() = default;
  JsonFloat(double value) : value_(value) {}

  bool is_beyond_float64() const { return std::isinf(value_); }

  operator double() const {
    constexpr double kMost = std::numeric_limits<double>::max();
    return std::clamp(value_, -kMost, kMost);
  }
  operator double&() { return value_; }  // into which the parser writes

 private:
  double value_;
};

using WideJson =
    nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, JsonFloat>;

// A derived class overrides the events that it can take and keeps its own place in the document;
// every other event is refused. Keys and strings are valid UTF-8.
class StrictJson : public nlohmann::json_sax<WideJson> {
 public:
  // Throws a DataError, without a file's name, on what is no JSON or was refused.
  void read(std::string_view text);

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { refuse(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { refuse(std::to_string(value)); }
  // `text` is how the number is written.
  bool number_float(number_float_t, const string_t& text) override;
  bool string(string_t&) override { refuse("a string"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool start_object(size_t) override { refuse("an object"); }
  bool key(string_t&) override { refuse("a key"); }
  bool end_object() override { refuse("the end of an object"); }
  bool start_array(size_t) override { refuse("an array"); }
  bool end_array() override { refuse("the end of an array"); }
  bool parse_error(size_t byte, const std::string& last_token,
                   const nlohmann::json::exception& error) override;

 protected:
  // What is expected at the present place: "header: tensor \"a\": shape: expected a list of sizes".
  virtual std::string expectation() const = 0;

  [[noreturn]] void refuse(const std::string& found) const;

 private:
  size_t size_ = 0;  // of the text that is read
};

}  // namespace longshore
