#include "longshore/data/jinja/interpreter.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "longshore/base/printable.h"
#include "longshore/data/jinja/arguments.h"
#include "longshore/data/jinja/filters.h"
#include "longshore/data/jinja/lexer.h"
#include "longshore/data/jinja/lookup.h"
#include "longshore/data/jinja/loop.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

// The variables of a block that has its own, within those of another.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->parent_.get())
      if (const auto own = scope->variables_.find(name); own != scope->variables_.end())
        return &own->second;
    return nullptr;
  }
  void set(const std::string& name, Value value) { variables_[name] = std::move(value); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value> variables_;
};

using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { next, leave_loop, next_iteration };

Value function(std::string name, std::function<Value(Arguments&)> call) {
  return std::make_shared<const Function>(Function{std::move(name), std::move(call)});
}

class Interpreter {
 public:
  explicit Interpreter(const std::optional<std::tm>& now) : now_(now) {}

  JinjaText run(const Block& statements, const nlohmann::ordered_json& variables) {
    try {
      auto globals = std::make_shared<Scope>(nullptr);
      add_functions(*globals);
      auto given = std::make_shared<Scope>(globals);
      for (const auto& [name, value] : variables.items())
        given->set(name, from_json(value, budget_));
      scope_ = std::make_shared<Scope>(given);
      execute(statements);
    } catch (const RaisedByTemplate&) {
      throw;
    } catch (const DataError& error) {
      fail_at(line_, error.what());
    }
    for (JinjaSpan& span : generated_) {
      span.end = std::min(span.end, text_.size());
      span.begin = std::min(span.begin, span.end);
    }
    return {std::move(text_), std::move(generated_)};
  }

 private:
  // ---- Functions that all templates have

  void add_functions(Scope& globals) {
    auto add = [&](const char* name, auto call) {
      globals.set(name, function(name, [this, call](Arguments& arguments) {
                    return (this->*call)(arguments);
                  }));
    };
    add("range", &Interpreter::range);
    add("dict", &Interpreter::make_dict_of);
    add("namespace", &Interpreter::make_namespace);
    add("raise_exception", &Interpreter::raise);
    if (now_) add("strftime_now", &Interpreter::strftime_now);
  }

  Value range(Arguments& arguments) {
    constexpr int64_t kMostElements = 100'000;  // as jinja2's sandbox has it
    const Bound bound(arguments, "range", {"start", "stop", "step"}, 1);
    const bool has_start = bound.get(1) != nullptr;
    const int64_t start = has_start ? as_integer(bound[0], "a bound of range") : 0;
    const int64_t stop = as_integer(bound[has_start ? 1 : 0], "a bound of range");
    const int64_t step = bound.get(2) ? as_integer(bound[2], "the step of range") : 1;
    if (step == 0) throw DataError("range: found the step 0, expected another");
    std::vector<Value> elements;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
      if (elements.size() == kMostElements)
        throw DataError("range: found more than " + std::to_string(kMostElements) +
                        " elements, expected no more");
      budget_.step();
      elements.push_back(i);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return make_sequence(SequenceKind::range, std::move(elements), budget_);
  }

  Dict dict_of(const Arguments& arguments, const char* name) {
    Dict dict;
    if (arguments.positional.size() > 1)
      throw DataError(std::string(name) + ": found more than one value, expected at most one");
    for (const Value& value : arguments.positional) {
      const auto* other = value.get<DictPtr>();
      if (other) {
        for (const auto& [key, own] : (*other)->items) insert(dict, key, own, budget_);
        continue;
      }
      for (const Value& pair : Elements(value, budget_)) {
        const Elements both(pair, budget_);
        if (both.size() != 2)
          throw DataError(std::string(name) + ": found " + std::to_string(both.size()) +
                          " elements, expected a key and a value");
        insert(dict, both[0], both[1], budget_);
      }
    }
    for (const auto& [key, value] : arguments.named)
      insert(dict, make_text(key, budget_), value, budget_);
    return dict;
  }

  Value make_dict_of(Arguments& arguments) {
    return make_dict(dict_of(arguments, "dict"), budget_);
  }

  static void require_public(const Value& name) {
    const std::string* text = as_text(name);
    if (text && text->starts_with('_'))
      throw DataError("found the attribute " + excerpt(*text) +
                      " of a namespace, expected a name that does not begin with _");
  }

  Value make_namespace(Arguments& arguments) {
    Namespace space{dict_of(arguments, "namespace")};
    for (const auto& item : space.attributes.items) require_public(item.first);
    budget_.memory(sizeof space);
    namespaces_.push_back(std::move(space));
    return &namespaces_.back();
  }

  Value raise(Arguments& arguments) {
    const Bound bound(arguments, "raise_exception", {"message"}, 1);
    throw RaisedByTemplate(str(bound[0], budget_));
  }

  // As datetime.now() has no zone and, here, no microseconds, their fields are empty and zeros.
  Value strftime_now(Arguments& arguments) {
    const Bound bound(arguments, "strftime_now", {"format"}, 1);
    std::string format;
    const std::string& given = bound.text(0);
    for (size_t i = 0; i < given.size(); ++i) {
      const char next = given[i] == '%' && i + 1 < given.size() ? given[i + 1] : '\0';
      if (next == 'f') format += "000000";
      if (next != 'f' && next != 'z' && next != 'Z') format += given[i];
      if (next == '%') format += next;
      if (next == 'f' || next == 'z' || next == 'Z' || next == '%') ++i;
    }
    std::array<char, 4096> text{};
    // A character at the end tells an empty text from one that is too long.
    const size_t size = std::strftime(text.data(), text.size(), (format + ".").c_str(), &*now_);
    if (size == 0 || format.find('\0') != std::string::npos)
      throw DataError(
          "strftime_now: found a format of a text that is too long, or a zero byte, "
          "expected less than 4096 bytes");
    return make_text(std::string(text.data(), size - 1), budget_);
  }

  // ---- Statements

  Flow execute(const Block& block) {
    for (const Statement& statement : block) {
      const Budget::Level level(budget_);
      budget_.step();
      line_ = statement.line;
      const Flow flow =
          std::visit([this](const auto& form) { return execute(form); }, statement.form);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  // A scope for the time that it lives.
  class Inner {
   public:
    Inner(Interpreter& interpreter, ScopePtr parent)
        : interpreter_(interpreter),
          before_(std::exchange(interpreter.scope_, std::make_shared<Scope>(std::move(parent)))) {
      interpreter.budget_.step(2);
    }
    explicit Inner(Interpreter& interpreter) : Inner(interpreter, interpreter.scope_) {}
    ~Inner() { interpreter_.scope_ = std::move(before_); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Interpreter& interpreter_;
    ScopePtr before_;
  };

  // What is written while it lives, which else would be the text's.
  class Capture {
   public:
    explicit Capture(Interpreter& interpreter)
        : interpreter_(interpreter), before_(std::exchange(interpreter.output_, &text_)) {}
    ~Capture() { interpreter_.output_ = before_; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    std::string take() { return std::move(text_); }

   private:
    Interpreter& interpreter_;
    std::string text_;
    std::string* before_;
  };

  void write(std::string_view text) {
    if (text.size() > Budget::kMostOutput - output_->size())
      Budget::refuse(Budget::kMostOutput, "bytes of output");
    budget_.memory(text.size());
    *output_ += text;
  }

  void write(const Value& value) {
    if (const std::string* text = as_text(value))
      write(std::string_view(*text));
    else
      write(str(value, budget_));
  }

  Flow execute(const Output& output) {
    if (output.value)
      write(evaluate(*output.value));
    else
      write(std::string_view(output.text));
    return Flow::next;
  }

  Flow execute(const For& statement) {
    if (!statement.is_recursive) return run_loop(statement, evaluate(*statement.elements), 1);
    write(render_recursively(statement, evaluate(*statement.elements), 1, scope_));
    return Flow::next;
  }

  Value render_recursively(const For& statement, const Value& elements, size_t depth,
                           const ScopePtr& outside) {
    const Budget::Level level(budget_);
    const Inner inner(*this, outside);
    Capture capture(*this);
    run_loop(statement, elements, depth);
    return make_text(capture.take(), budget_);
  }

  Flow run_loop(const For& statement, const Value& elements, size_t depth) {
    const ScopePtr outside = scope_;
    std::function<bool(const Value&)> admits;
    if (statement.condition)
      admits = [&](const Value& element) {
        const Inner inner(*this, outside);
        assign(statement.target, element);
        return is_true(evaluate(*statement.condition));
      };
    const auto loop =
        std::make_shared<Loop>(Elements(elements, budget_), std::move(admits), depth, budget_);
    if (statement.is_recursive)
      loop->recurse = [&, depth](const Value& others) {
        return render_recursively(statement, others, depth + 1, outside);
      };
    bool is_empty = true;
    while (const Value* element = loop->next()) {
      is_empty = false;
      const Inner inner(*this);
      scope_->set("loop", std::weak_ptr<Loop>(loop));
      assign(statement.target, *element);
      if (execute(statement.body) == Flow::leave_loop) break;
    }
    if (!is_empty) return Flow::next;
    const Inner inner(*this);
    return execute(statement.otherwise);
  }

  Flow execute(const If& statement) {
    for (const auto& [condition, body] : statement.branches)
      if (is_true(evaluate(*condition))) return execute(body);
    return execute(statement.otherwise);
  }

  Flow execute(const Set& statement) {
    require_namespaces(statement.target);
    assign(statement.target, evaluate(*statement.value));
    return Flow::next;
  }

  Flow execute(const SetBlock& statement) {
    Value value;
    {
      const Inner inner(*this);
      Capture capture(*this);
      if (const Flow flow = execute(statement.body); flow != Flow::next) return flow;
      value = make_text(capture.take(), budget_);
      if (statement.filter) value = filtered(*statement.filter, value);
    }
    require_namespaces(statement.target);
    assign(statement.target, value);
    return Flow::next;
  }

  Flow execute(const FilterBlock& statement) {
    Value value;
    {
      const Inner inner(*this);
      Capture capture(*this);
      if (const Flow flow = execute(statement.body); flow != Flow::next) return flow;
      value = filtered(*statement.filter, make_text(capture.take(), budget_));
    }
    write(value);
    return Flow::next;
  }

  Flow execute(const Macro& macro) {
    scope_->set(macro.name, made_macro(macro));
    return Flow::next;
  }

  Flow execute(const CallBlock& block) {
    const auto& call = std::get<Call>(block.call->form);
    line_ = block.call->line;
    const Value callee = evaluate(*call.callee);
    Arguments arguments = evaluated(call.arguments);
    arguments.named.emplace_back("caller", made_macro(block.caller));
    write(called(callee, arguments));
    return Flow::next;
  }

  Flow execute(const With& statement) {
    std::vector<Value> values;
    for (const auto& variable : statement.variables) values.push_back(evaluate(*variable.second));
    const Inner inner(*this);
    for (size_t i = 0; i < values.size(); ++i) assign(statement.variables[i].first, values[i]);
    return execute(statement.body);
  }

  Flow execute(const Generation& statement) {
    std::string text;
    {
      const Inner inner(*this);
      Capture capture(*this);
      execute(statement.body);
      text = capture.take();
    }
    budget_.memory(sizeof(JinjaSpan));
    generated_.push_back({text_.size(), text_.size() + text.size()});
    write(std::string_view(text));
    return Flow::next;
  }

  Flow execute(Break) { return Flow::leave_loop; }
  Flow execute(Continue) { return Flow::next_iteration; }

  // ---- Assignments

  void require_namespaces(const Target& target) {
    for (const Target& part : target.parts) require_namespaces(part);
    if (!target.attribute.empty()) namespace_of(target);
  }

  Namespace& namespace_of(const Target& target) {
    const Value* value = scope_->find(target.name);
    auto* space = value ? value->get<Namespace*>() : nullptr;
    if (!space)
      throw DataError("found an assignment to the attribute " + excerpt(target.attribute) + " of " +
                      (value ? type_name(*value) : "the undefined " + excerpt(target.name)) +
                      ", expected one of a namespace");
    return **space;
  }

  void assign(const Target& target, const Value& value) {
    budget_.step();
    if (target.is_tuple) {
      const Elements elements(value, budget_);
      if (elements.size() != target.parts.size())
        throw DataError("found " + std::to_string(elements.size()) + " values for " +
                        std::to_string(target.parts.size()) + " names, expected as many");
      for (size_t i = 0; i < elements.size(); ++i) assign(target.parts[i], elements[i]);
    } else if (target.attribute.empty()) {
      scope_->set(target.name, value);
    } else {
      const Value name = make_text(target.attribute, budget_);
      require_public(name);
      insert(namespace_of(target).attributes, name, value, budget_);
    }
  }

  // ---- Macros and calls

  // Within the variables that are there where it is defined, as they are when it is called.
  Value made_macro(const Macro& macro) {
    budget_.memory(256);
    return function("the macro " + excerpt(macro.name),
                    [this, &macro, outside = std::weak_ptr<Scope>(scope_)](Arguments& arguments) {
                      if (ScopePtr scope = outside.lock())
                        return call_macro(macro, std::move(scope), arguments);
                      throw DataError("found a call of the macro " + excerpt(macro.name) +
                                      " behind the block that defines it, expected one within");
                    });
  }

  Value call_macro(const Macro& macro, ScopePtr outside, Arguments& arguments) {
    const Inner inner(*this, std::move(outside));
    bind(macro, arguments);
    Capture capture(*this);
    execute(macro.body);
    return make_text(capture.take(), budget_);
  }

  // Takes an argument by its name; nothing where it is not given.
  static std::optional<Value> taken(Arguments& arguments, const std::string& name) {
    const auto own =
        std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
    if (own == arguments.named.end()) return std::nullopt;
    Value value = std::move(own->second);
    arguments.named.erase(own);
    return value;
  }

  void bind(const Macro& macro, Arguments& arguments) {
    auto& positional = arguments.positional;
    budget_.step(macro.parameters.size());
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, initial] = macro.parameters[i];
      std::optional<Value> value =
          i < positional.size() ? std::optional(positional[i]) : taken(arguments, name);
      if (!value && initial) value = evaluate(*initial);
      scope_->set(name,
                  value ? *std::move(value)
                        : make_undefined("the parameter " + excerpt(name) + " was not provided"));
    }
    if (macro.uses_caller)
      scope_->set("caller",
                  taken(arguments, "caller").value_or(make_undefined("there is no caller")));
    const std::string of = "the macro " + excerpt(macro.name);
    if (macro.uses_kwargs) {
      scope_->set("kwargs",
                  make_dict(dict_of({{}, std::move(arguments.named)}, "kwargs"), budget_));
    } else if (!arguments.named.empty()) {
      throw DataError("found the argument " + excerpt(arguments.named[0].first) + " of " + of +
                      ", expected one that it takes");
    }
    const size_t own = std::min(positional.size(), macro.parameters.size());
    std::vector<Value> others(positional.begin() + static_cast<std::ptrdiff_t>(own),
                              positional.end());
    if (macro.uses_varargs)
      scope_->set("varargs", make_tuple(std::move(others), budget_));
    else if (!others.empty())
      throw DataError("found " + std::to_string(positional.size()) + " arguments of " + of +
                      ", expected at most " + std::to_string(own));
  }

  Value called(const Value& callee, Arguments& arguments) {
    budget_.step(2);
    if (auto* own = callee.get<FunctionPtr>()) {
      const FunctionPtr held = *own;
      return held->call(arguments);
    }
    require_defined(callee);
    if (auto* weak = callee.get<std::weak_ptr<Loop>>()) {
      const auto loop = weak->lock();
      if (!loop || !loop->recurse)
        throw DataError("found a call of a loop that is not recursive, expected `recursive` there");
      const Bound bound(arguments, "loop", {"iterable"}, 1);
      return loop->recurse(bound[0]);
    }
    throw DataError("found a call of " + type_name(callee) + ", expected a function");
  }

  Arguments evaluated(const CallArguments& arguments) {
    Arguments values;
    budget_.memory((arguments.positional.size() + arguments.named.size()) * sizeof(Value));
    for (const auto& argument : arguments.positional)
      values.positional.push_back(evaluate(*argument));
    for (const auto& [name, argument] : arguments.named)
      values.named.emplace_back(name, evaluate(*argument));
    if (arguments.unpacked) {
      const std::vector<Value> others =
          Elements(evaluate(*arguments.unpacked), budget_).copy(budget_);
      values.positional.insert(values.positional.end(), others.begin(), others.end());
    }
    if (arguments.unpacked_named) {
      const Value others = evaluate(*arguments.unpacked_named);
      const auto* dict = others.get<DictPtr>();
      if (!dict) throw DataError("found **" + type_name(others) + ", expected a dict");
      for (const auto& [key, value] : (*dict)->items) {
        if (!as_text(key))
          throw DataError("found " + type_name(key) + " as the name of an " +
                          "argument, expected a str");
        budget_.memory(sizeof value + as_text(key)->size());
        values.named.emplace_back(*as_text(key), value);
      }
    }
    if (values.named.size() > 1) require_distinct(values);
    return values;
  }

  void require_distinct(const Arguments& arguments) {
    std::vector<std::string_view> names;
    budget_.step(arguments.named.size() * 4);
    for (const auto& argument : arguments.named) names.push_back(argument.first);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      throw DataError("found the argument " + excerpt(*twice) + " twice, expected it once");
  }

  // ---- Expressions

  Value evaluate(const Expression& expression) {
    const Budget::Level level(budget_);
    budget_.step();
    const size_t before = std::exchange(line_, expression.line);
    Value value = std::visit([this](const auto& form) { return evaluate(form); }, expression.form);
    line_ = before;
    return value;
  }

  Value evaluate_or_none(const ExpressionPtr& expression) {
    return expression ? evaluate(*expression) : Value(None{});
  }

  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions) {
    std::vector<Value> values;
    values.reserve(expressions.size());
    for (const auto& expression : expressions) values.push_back(evaluate(*expression));
    return values;
  }

  Value evaluate(const Constant& constant) { return constant.value; }

  Value evaluate(const Name& name) {
    if (const Value* value = scope_->find(name.name)) return *value;
    static const std::vector<std::string> kMissing = {"cycler", "joiner", "lipsum", "self",
                                                      "super"};
    if (std::ranges::find(kMissing, name.name) != kMissing.end())
      throw DataError("found " + name.name + ", which is not supported; expected another name");
    return make_undefined(excerpt(name.name) + " is undefined");
  }

  Value evaluate(const ListLiteral& list) {
    return make_sequence(list.is_tuple ? SequenceKind::tuple : SequenceKind::list,
                         evaluate_all(list.elements), budget_);
  }

  Value evaluate(const DictLiteral& literal) {
    Dict dict;
    for (const auto& [key, value] : literal.items) {
      Value name = evaluate(*key);
      insert(dict, std::move(name), evaluate(*value), budget_);
    }
    return make_dict(std::move(dict), budget_);
  }

  Value evaluate(const Unary& unary) {
    const Value operand = evaluate(*unary.operand);
    switch (unary.prefix) {
      case Prefix::plus:
        return positive(operand);
      case Prefix::minus:
        return negated(operand);
      case Prefix::logical_not:
        break;
    }
    return !is_true(operand);
  }

  Value evaluate(const Binary& operation) {
    const Value left = evaluate(*operation.left), right = evaluate(*operation.right);
    return binary(operation.op, left, right, budget_);
  }

  Value evaluate(const Logical& logical) {
    Value left = evaluate(*logical.left);
    return is_true(left) == logical.is_and ? evaluate(*logical.right) : left;
  }

  Value evaluate(const Concatenation& concatenation) {
    std::string text;
    for (const Value& part : evaluate_all(concatenation.parts)) text += str(part, budget_);
    return make_text(std::move(text), budget_);
  }

  Value evaluate(const Comparison& comparison) {
    Value left = evaluate(*comparison.first);
    for (const auto& [comparator, other] : comparison.others) {
      Value right = evaluate(*other);
      if (!compared(comparator, left, right, budget_)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value evaluate(const Conditional& conditional) {
    if (is_true(evaluate(*conditional.condition))) return evaluate(*conditional.value);
    if (conditional.otherwise) return evaluate(*conditional.otherwise);
    return make_undefined("the condition does not hold, and there is no else");
  }

  Value evaluate(const Attribute& access) {
    return attribute(evaluate(*access.object), access.name, budget_);
  }

  Value evaluate(const Subscript& access) {
    const Value object = evaluate(*access.object);
    return element(object, evaluate(*access.index), budget_);
  }

  Value evaluate(const Slice& access) {
    const Value object = evaluate(*access.object);
    const Value begin = evaluate_or_none(access.begin), end = evaluate_or_none(access.end);
    return slice(object, begin, end, evaluate_or_none(access.step), budget_);
  }

  Value evaluate(const Call& call) {
    const Value callee = evaluate(*call.callee);
    Arguments arguments = evaluated(call.arguments);
    return called(callee, arguments);
  }

  Value evaluate(const Filtered& filter) { return filtered(filter, Value()); }

  // Of a filter block the innermost one has no value of its own.
  Value filtered(const Expression& filter, const Value& enclosed) {
    return filtered(std::get<Filtered>(filter.form), enclosed);
  }
  Value filtered(const Filtered& filter, const Value& enclosed) {
    const auto* inner = filter.value ? std::get_if<Filtered>(&filter.value->form) : nullptr;
    const Value value = !filter.value ? enclosed
                        : inner       ? filtered_within(*inner, enclosed)
                                      : evaluate(*filter.value);
    return apply_filter(filter.name, value, evaluated(filter.arguments), budget_);
  }
  Value filtered_within(const Filtered& filter, const Value& enclosed) {
    const Budget::Level level(budget_);
    budget_.step();
    return filtered(filter, enclosed);
  }

  Value evaluate(const Tested& test) {
    const Value value = evaluate(*test.value);
    return apply_test(test.name, value, evaluated(test.arguments), budget_);
  }

  const std::optional<std::tm>& now_;
  Budget budget_;
  size_t line_ = 1;
  std::deque<Namespace> namespaces_;
  ScopePtr scope_;
  std::string text_;
  std::string* output_ = &text_;
  std::vector<JinjaSpan> generated_;
};

}  // namespace

JinjaText interpret(const Block& statements, const nlohmann::ordered_json& variables,
                    const std::optional<std::tm>& now) {
  return Interpreter(now).run(statements, variables);
}

}  // namespace longshore::data::jinja
