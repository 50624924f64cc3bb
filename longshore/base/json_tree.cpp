#include "longshore/base/json_tree.h"

#include <cstdlib>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxDepth = 32;

template <class Json>
class TreeReader : public StrictJson {
 public:
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return add(json_number(value, text));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }

 protected:
  std::string expectation() const override { return "expected a JSON value"; }

 private:
  struct Open {
    Json value;
    std::string key;                                 // of the object's next value
    std::unordered_map<std::string, size_t> places;  // of the ordered object's keys
  };

  bool open(Json container) {
    if (open_.size() == kMaxDepth)
      throw DataError("found values nested deeper than " + std::to_string(kMaxDepth) +
                      ", expected less");
    open_.push_back({std::move(container), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().value.is_array())
      open_.back().value.push_back(std::move(value));
    else
      insert(open_.back(), std::move(value));
    return true;
  }

  // An ordered object would compare its key with all before.
  static void insert(Open& open, Json value) {
    auto& object = open.value.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, ordered_json>) {
      const auto [place, is_new] = open.places.try_emplace(open.key, object.size());
      if (is_new)
        object.emplace_back(std::move(open.key), std::move(value));
      else
        (object.begin() + static_cast<std::ptrdiff_t>(place->second))->second = std::move(value);
    } else {
      object.insert_or_assign(std::move(open.key), std::move(value));
    }
  }

  Json root_;
  std::vector<Open> open_;
};

template <class Json>
Json read_tree(std::string_view text) {
  TreeReader<Json> reader;
  reader.read(text);
  return reader.take();
}

// Hands the events within wanted values to a TreeReader of their own, and drops others.
class ObjectReader : public StrictJson {
 public:
  explicit ObjectReader(const std::function<bool(const std::string&)>& wants) : wants_(wants) {}

  ordered_json take() { return std::move(object_); }

  bool null() override {
    return value([](auto& reader) { return reader.null(); }, "null");
  }
  bool boolean(bool flag) override {
    return value([&](auto& reader) { return reader.boolean(flag); }, "a boolean");
  }
  bool number_integer(number_integer_t number) override {
    return value([&](auto& reader) { return reader.number_integer(number); }, "a number");
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value([&](auto& reader) { return reader.number_unsigned(number); }, "a number");
  }
  bool number_float(number_float_t number, const string_t& text) override {
    return value([&](auto& reader) { return reader.number_float(number, text); }, "a number");
  }
  bool string(string_t& text) override {
    return value([&](auto& reader) { return reader.string(text); }, "a string");
  }

  bool start_object(size_t size) override {
    if (depth_++ == 0) return true;
    return hand_over([&](auto& reader) { return reader.start_object(size); });
  }
  bool start_array(size_t size) override {
    if (depth_ == 0) refuse("an array");
    ++depth_;
    return hand_over([&](auto& reader) { return reader.start_array(size); });
  }
  bool end_object() override {
    if (--depth_ == 0) return true;
    return hand_over([](auto& reader) { return reader.end_object(); }) && finish();
  }
  bool end_array() override {
    --depth_;
    return hand_over([](auto& reader) { return reader.end_array(); }) && finish();
  }

  bool key(string_t& name) override {
    if (depth_ > 1) return hand_over([&](auto& reader) { return reader.key(name); });
    key_ = std::move(name);
    if (!wants_(key_)) return true;
    if (object_.contains(key_))
      throw DataError(in_quotes(key_) + ": found the key again, expected it once");
    reader_.emplace();
    return true;
  }

 protected:
  std::string expectation() const override { return "expected an object"; }

 private:
  template <class F>
  bool hand_over(F event) {
    return !reader_ || event(*reader_);
  }

  template <class F>
  bool value(F event, const char* kind) {
    if (depth_ == 0) refuse(kind);
    return hand_over(event) && finish();
  }

  bool finish() {
    if (depth_ == 1 && reader_) {
      object_[key_] = reader_->take();
      reader_.reset();
    }
    return true;
  }

  const std::function<bool(const std::string&)>& wants_;
  size_t depth_ = 0;
  std::string key_;                                 // of the value that comes
  std::optional<TreeReader<ordered_json>> reader_;  // of one that is wanted
  ordered_json object_ = ordered_json::object();
};

constexpr int kOneLine = -1;

template <class Json>
std::string plain(const Json& value) {
  return value.dump(kOneLine, ' ', false, Json::error_handler_t::replace);
}

void begin_line(int indent, std::string& text) {
  if (indent == kOneLine) return;
  text += '\n';
  text.append(static_cast<size_t>(indent), ' ');
}

// `indent` is that of the line on which the value begins.
template <class Json>
void write(const Json& value, int indent, std::string& text) {
  if (value.is_binary()) {
    text.append(value.get_binary().begin(), value.get_binary().end());
    return;
  }
  if (!value.is_structured() || value.empty()) {
    text += plain(value);
    return;
  }
  const int inner = indent == kOneLine ? kOneLine : indent + 2;
  const char* between = "";
  text += value.is_object() ? '{' : '[';
  for (auto item = value.begin(); item != value.end(); ++item) {
    text += std::exchange(between, ",");
    begin_line(inner, text);
    if (value.is_object()) text += plain(Json(item.key())) + (indent == kOneLine ? ":" : ": ");
    write(*item, inner, text);
  }
  begin_line(indent, text);
  text += value.is_object() ? '}' : ']';
}

template <class Json>
std::string written(const Json& tree) {
  std::string text;
  write(tree, 0, text);
  return text + "\n";
}

}  // namespace

json json_tree(std::string_view text) { return read_tree<json>(text); }

ordered_json ordered_json_tree(std::string_view text) { return read_tree<ordered_json>(text); }

ordered_json ordered_json_object(std::string_view text,
                                 const std::function<bool(const std::string&)>& wants) {
  ObjectReader reader(wants);
  reader.read(text);
  return reader.take();
}

json json_number(JsonFloat value, const std::string& text) {
  const bool is_integer = text.find_first_of(".eE") == text.npos;
  if (!is_integer && !value.is_beyond_float64()) return static_cast<double>(value);
  return json::binary({text.begin(), text.end()});
}

std::string json_text(const json& tree) { return written(tree); }
std::string json_text(const ordered_json& tree) { return written(tree); }

std::string shown(const json& value) {
  std::string text;
  write(value, kOneLine, text);
  return excerpt(text);
}

std::string kind_of(const ordered_json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "a string";
  return shown(value);
}

double as_float64(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_binary()) return std::numeric_limits<double>::quiet_NaN();
  const std::string text(value.get_binary().begin(), value.get_binary().end());
  return std::strtod(text.c_str(), nullptr);
}

}  // namespace longshore
