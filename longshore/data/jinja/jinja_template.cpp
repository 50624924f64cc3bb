#include "longshore/data/jinja/jinja_template.h"

#include "longshore/base/utf8.h"
#include "longshore/data/jinja/interpreter.h"
#include "longshore/data/jinja/parser.h"

namespace longshore::data {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

std::string_view checked(std::string_view source) {
  if (source.size() > kMostBytes)
    throw DataError("found a template of " + std::to_string(source.size()) +
                    " bytes, expected at most " + std::to_string(kMostBytes));
  if (const size_t valid = valid_utf8_prefix(source); valid != source.size())
    throw DataError("found a template that is not UTF-8 at byte " + std::to_string(valid + 1) +
                    ", expected one that is");
  return source;
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::string_view source)
    : syntax_(std::make_unique<const jinja::Syntax>(jinja::parse(checked(source)))) {}

JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

JinjaText JinjaTemplate::render(const nlohmann::ordered_json& variables,
                                const std::optional<std::tm>& now) const {
  return jinja::interpret(syntax_->statements, variables, now);
}

bool JinjaTemplate::has_generation() const { return syntax_->has_generation; }

}  // namespace longshore::data
