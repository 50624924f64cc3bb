// A JinjaTemplate writes conversations as text by a chat template as Hugging Face transformers has
// it: in jinja2's language, with its sandbox of values that templates cannot change.
//
// Of the language it has all expressions, and all statements but those that need other templates
// (extends, block, include, import), autoescape and extensions (trans, do, debug). What is not
// there is an error that names it, as are integers of more than 64 bits, which Python has. A
// template is of 1 MiB at most, and may take as much time and memory as
// longshore/data/jinja/budget.h says.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "longshore/data/jinja/jinja_text.h"

namespace longshore::data {

namespace jinja {
struct Syntax;
}

class JinjaTemplate {
 public:
  // Throws a DataError with the line, "line 12: ...", on a source that is no template.
  explicit JinjaTemplate(std::string_view source);
  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;
  ~JinjaTemplate();

  // The variables are an object: messages, tools, add_generation_prompt and others. `now` is what
  // the function strftime_now() shows; without, there is no such function. Throws
  // RaisedByTemplate, and a DataError with the line.
  JinjaText render(const nlohmann::ordered_json& variables,
                   const std::optional<std::tm>& now = std::nullopt) const;

  // Whether it says what the assistant writes.
  bool has_generation() const;

 private:
  std::unique_ptr<const jinja::Syntax> syntax_;
};

}  // namespace longshore::data
