#include "longshore/data/jinja/json_dumps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "longshore/base/utf8.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

std::string number_text(const Value& value, Budget& budget) {
  const double* number = value.get<double>();
  if (number && std::isnan(*number)) return "NaN";
  if (number && std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
  if (auto* boolean = value.get<bool>()) return *boolean ? "true" : "false";
  return repr(value, budget);
}

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    const Budget::Level level(budget_);
    budget_.step();
    const auto* sequence = value.get<SequencePtr>();
    if (value.is<None>()) {
      add("null");
    } else if (is_number(value)) {
      add(number_text(value, budget_));
    } else if (const std::string* text = as_text(value)) {
      write_text(*text);
    } else if (sequence && ((*sequence)->kind == SequenceKind::list || (*sequence)->is_tuple())) {
      write_elements(**sequence);
    } else if (auto* dict = value.get<DictPtr>()) {
      write_items(**dict);
    } else {
      throw DataError("found " + type_name(value) + ", expected a value that JSON has");
    }
  }

 private:
  void add(std::string_view text) {
    budget_.memory(text.size());
    out_ += text;
  }

  void add_escape(const char* format, unsigned number) {
    std::array<char, 16> escape{};
    std::snprintf(escape.data(), escape.size(), format, number);
    out_ += escape.data();
  }

  void write_text(std::string_view text) {
    budget_.step(text.size() / 16);
    const size_t before = out_.size();
    out_ += '"';
    while (!text.empty()) {
      const Character character = first_character(text);
      write_character(character.code_point, text.substr(0, character.bytes));
      text.remove_prefix(character.bytes);
    }
    out_ += '"';
    budget_.memory(out_.size() - before);
  }

  void write_character(char32_t c, std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kEscapes = "\"\\nrtfb";
    const auto code = static_cast<unsigned>(c);
    if (const size_t place = c < 0x80 ? kEscaped.find(bytes) : kEscaped.npos;
        place != kEscaped.npos) {
      out_ += {'\\', kEscapes[place]};
    } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7f && c < 0x10000)) {
      add_escape("\\u%04x", code);
    } else if (style_.ensure_ascii && c >= 0x10000) {
      add_escape("\\u%04x", 0xd800 + ((code - 0x10000) >> 10));
      add_escape("\\u%04x", 0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      out_ += bytes;
    }
  }

  void begin_line() {
    if (!style_.indent) return;
    add("\n");
    for (size_t i = 0; i < depth_; ++i) add(*style_.indent);
  }

  // Each of the parts on a line of its own, where there are lines.
  template <class Parts, class Write>
  void write_all(char opening, const Parts& parts, char closing, Write write_part) {
    out_ += opening;
    ++depth_;
    bool is_first = true;
    for (const auto& part : parts) {
      if (!std::exchange(is_first, false)) add(style_.between_items);
      begin_line();
      write_part(part);
    }
    --depth_;
    if (!is_first) begin_line();
    out_ += closing;
  }

  void write_elements(const Sequence& sequence) {
    write_all('[', sequence.elements, ']', [&](const Value& element) { write(element); });
  }

  void write_items(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> items;
    budget_.memory(dict.items.size() * sizeof(void*));
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::ranges::stable_sort(
          items, [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    write_all('{', items, '}', [&](const std::pair<Value, Value>* item) {
      write_text(key_text(item->first));
      add(style_.after_key);
      write(item->second);
    });
  }

  std::string key_text(const Value& key) {
    if (const std::string* text = as_text(key)) return *text;
    if (key.is<None>()) return "null";
    if (is_number(key)) return number_text(key, budget_);
    throw DataError("found " + type_name(key) + " as a key, expected one that JSON has");
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
  size_t depth_ = 0;
};

}  // namespace

std::string json_dumps(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace longshore::data::jinja
