#include "data/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/printable.h"
#include "data/jinja/characters.h"
#include "data/jinja/loop.h"
#include "data/jinja/methods.h"
#include "data/jinja/python_format.h"
#include "data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

const char* symbol(Operator op) {
  constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void refuse_size() {
  throw DataError("found an integer beyond 64 bits, expected none");
}

[[noreturn]] void refuse_zero() { throw DataError("found a division by zero, expected none"); }

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) refuse_size();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) refuse_size();
  }
}

double real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse_zero();
  const double result = std::pow(base, exponent);
  const bool is_finite = std::isfinite(base) && std::isfinite(exponent);
  if (is_finite && !std::isfinite(result))
    throw DataError("found a power that is no float, expected one that is");
  return result;
}

// Towards minus infinity, with a remainder of the divisor's sign.
Value integer_division(Operator op, int64_t a, int64_t b) {
  if (b == 0) refuse_zero();
  if (b == -1) {  // of the least integer the processor makes a fault
    if (op == Operator::modulo) return int64_t{0};
    if (a == std::numeric_limits<int64_t>::min()) refuse_size();
    return -a;
  }
  const bool is_between = a % b != 0 && (a < 0) != (b < 0);
  return op == Operator::modulo ? a % b + (is_between ? b : 0) : a / b - (is_between ? 1 : 0);
}

Value real_division(Operator op, double a, double b) {
  if (b == 0) refuse_zero();
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == Operator::modulo) return remainder;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value of_integers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::divide:
      if (b == 0) refuse_zero();
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::power:
      if (b < 0) return real_power(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
    default:
      return integer_division(op, a, b);
  }
}

Value of_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      if (b == 0) refuse_zero();
      return a / b;
    case Operator::power:
      return real_power(a, b);
    default:
      return real_division(op, a, b);
  }
}

Value joined(const Value& a, const Value& b, Budget& budget) {
  const Text &left = *a.get<Text>(), &right = *b.get<Text>();
  budget.memory(left->size() + right->size());
  if (!left.is_safe && !right.is_safe) return make_text(*left + *right, budget);
  auto escaped = [&](const Text& text) {
    return text.is_safe ? *text : escaped_for_html(*text, budget);
  };
  return text_like(left.is_safe ? a : b, escaped(left) + escaped(right), budget);
}

Value repeated(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  auto take = [&](size_t bytes) {
    if (bytes > 0 && times > Budget::kMostMemory / bytes)
      Budget::refuse(Budget::kMostMemory, "bytes in the values that it makes");
    budget.memory(times * bytes);
  };
  if (const std::string* text = as_text(value)) {
    take(text->size());
    std::string result;
    result.reserve(times * text->size());
    for (size_t i = 0; i < times && !text->empty(); ++i) result += *text;
    return text_like(value, std::move(result), budget);
  }
  const Sequence& sequence = **value.get<SequencePtr>();
  take(sequence.elements.size() * sizeof(Value));
  std::vector<Value> elements;
  elements.reserve(times * sequence.elements.size());
  for (size_t i = 0; i < times && !sequence.elements.empty(); ++i)
    elements.insert(elements.end(), sequence.elements.begin(), sequence.elements.end());
  return make_sequence(sequence.kind, std::move(elements), budget);
}

bool is_repeatable(const Value& value) {
  auto* sequence = value.get<SequencePtr>();
  return value.is<Text>() ||
         (sequence && ((*sequence)->kind == SequenceKind::list || (*sequence)->is_tuple()));
}

bool is_whole(const Value& value) { return value.is<int64_t>() || value.is<bool>(); }

// Where a slice begins and ends of so many elements, as Python has it.
struct Range {
  int64_t begin, end, step;
};

Range slice_range(const Value& begin, const Value& end, const Value& step, int64_t count) {
  constexpr const char* kWhat = "a bound of a slice";
  Range range{0, 0, step.is<None>() ? 1 : as_integer(step, kWhat)};
  if (range.step == 0) throw DataError("found the step 0 in a slice, expected another");
  const int64_t low = range.step < 0 ? -1 : 0, high = range.step < 0 ? count - 1 : count;
  auto bound = [&](const Value& value, int64_t missing) {
    if (value.is<None>()) return missing;
    const int64_t given = as_integer(value, kWhat);
    return std::clamp(given < 0 ? given + count : given, low, high);
  };
  range.begin = bound(begin, range.step < 0 ? high : low);
  range.end = bound(end, range.step < 0 ? low : high);
  return range;
}

template <class F>
void for_each_in(const Range& range, int64_t count, Budget& budget, F f) {
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;) {
    budget.step();
    f(i);
    // A step may be as large as an integer can be.
    if (range.step > count || range.step < -count) break;
    i += range.step;
  }
}

Value slice_of_text(const Value& value, const Range& range, Budget& budget) {
  const std::string& text = *as_text(value);
  if (range.step == 1) {
    const size_t begin = byte_of_character(text, static_cast<size_t>(range.begin), budget);
    const auto count = static_cast<size_t>(std::max<int64_t>(range.end - range.begin, 0));
    const std::string_view rest = std::string_view(text).substr(begin);
    return text_like(value, std::string(rest.substr(0, byte_of_character(rest, count, budget))),
                     budget);
  }
  const Elements characters(value, budget);
  std::string result;
  for_each_in(range, static_cast<int64_t>(characters.size()), budget,
              [&](int64_t i) { result += *as_text(characters[static_cast<size_t>(i)]); });
  return text_like(value, std::move(result), budget);
}

// Of a list, a tuple, a range or a text: nothing where it has no such position.
std::optional<Value> at_position(const Value& value, int64_t index, Budget& budget) {
  auto* sequence = value.get<SequencePtr>();
  const std::string* text = as_text(value);
  if (sequence && (*sequence)->kind > SequenceKind::range) return std::nullopt;
  if (!sequence && !text) return std::nullopt;
  const auto count = static_cast<int64_t>(sequence ? (*sequence)->elements.size()
                                                   : count_characters(*text, budget));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const auto at = static_cast<size_t>(index);
  if (sequence) return (*sequence)->elements[at];
  const size_t byte = byte_of_character(*text, at, budget);
  const std::string_view rest = std::string_view(*text).substr(byte);
  return text_like(value, std::string(rest.substr(0, byte_of_character(rest, 1, budget))), budget);
}

// What getattr() of Python finds.
std::optional<Value> python_attribute(const Value& value, const std::string& name, Budget& budget) {
  if (auto* space = value.get<Namespace*>()) {
    const Value* own = find((*space)->attributes, name, budget);
    return own ? std::optional(*own) : std::nullopt;
  }
  if (auto* loop = value.get<std::weak_ptr<Loop>>()) {
    if (const auto held = loop->lock()) return held->attribute(name, held);
    throw DataError("found the loop of a for statement that has ended, expected one that runs");
  }
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4)
    return make_undefined("the attribute " + excerpt(name) + " is not for templates");
  return method(value, name, budget);
}

std::optional<Value> own_element(const Value& value, const Value& index, Budget& budget) {
  if (auto* dict = value.get<DictPtr>()) {
    if (!is_hashable(index, budget)) return std::nullopt;
    const Value* own = find(**dict, index, budget);
    return own ? std::optional(*own) : std::nullopt;
  }
  if (!is_whole(index)) return std::nullopt;
  return at_position(value, as_integer(index, "an index"), budget);
}

void require_defined(const Value& value) {
  if (auto* undefined = value.get<Undefined>()) throw DataError(*undefined->message);
}

}  // namespace

Value binary(Operator op, const Value& a, const Value& b, Budget& budget) {
  const auto *sequence_a = a.get<SequencePtr>(), *sequence_b = b.get<SequencePtr>();
  if (op == Operator::modulo && a.is<Text>()) {
    if (a.get<Text>()->is_safe)
      throw DataError("found % with a safe text on its left, expected a plain one");
    return make_text(percent_format(*as_text(a), b, budget), budget);
  }
  require_defined(a);
  require_defined(b);
  if (is_whole(a) && is_whole(b))
    return of_integers(op, as_integer(a, "a number"), as_integer(b, "a number"));
  if (is_number(a) && is_number(b)) return of_reals(op, as_double(a), as_double(b));
  if (op == Operator::add && a.is<Text>() && b.is<Text>()) return joined(a, b, budget);
  if (op == Operator::add && sequence_a && sequence_b && is_repeatable(a) && is_repeatable(b) &&
      (*sequence_a)->is_tuple() == (*sequence_b)->is_tuple()) {
    std::vector<Value> elements = Elements(a, budget).copy(budget);
    const Elements more(b, budget);
    elements.insert(elements.end(), more.begin(), more.end());
    return make_sequence((*sequence_a)->is_tuple() ? SequenceKind::tuple : SequenceKind::list,
                         std::move(elements), budget);
  }
  if (op == Operator::multiply && is_repeatable(a) && is_whole(b))
    return repeated(a, as_integer(b, "a number"), budget);
  if (op == Operator::multiply && is_whole(a) && is_repeatable(b))
    return repeated(b, as_integer(a, "a number"), budget);
  throw DataError("found " + type_name(a) + " " + symbol(op) + " " + type_name(b) +
                  ", expected values that have this operator");
}

Value negated(const Value& value) {
  if (is_whole(value)) return of_integers(Operator::subtract, 0, as_integer(value, "a number"));
  return positive(value).get<double>() ? Value(-*value.get<double>()) : value;
}

Value positive(const Value& value) {
  require_defined(value);
  if (is_whole(value)) return as_integer(value, "a number");
  if (value.is<double>()) return value;
  throw DataError("found " + type_name(value) + " behind a sign, expected a number");
}

bool compared(Comparator comparator, const Value& a, const Value& b, Budget& budget) {
  switch (comparator) {
    case Comparator::equal:
      return equal(a, b, budget);
    case Comparator::unequal:
      return !equal(a, b, budget);
    case Comparator::less:
      return less(a, b, budget);
    case Comparator::less_equal:
      return less_or_equal(a, b, budget);
    case Comparator::greater:
      return less(b, a, budget);
    case Comparator::greater_equal:
      return less_or_equal(b, a, budget);
    case Comparator::in:
      return contains(b, a, budget);
    case Comparator::not_in:
      break;
  }
  return !contains(b, a, budget);
}

Value attribute(const Value& value, const std::string& name, Budget& budget) {
  require_defined(value);
  if (auto own = python_attribute(value, name, budget)) return *std::move(own);
  if (auto* dict = value.get<DictPtr>())
    if (const Value* own = find(**dict, name, budget)) return *own;
  return make_undefined(type_name(value) + " has no attribute " + excerpt(name));
}

Value element(const Value& value, const Value& index, Budget& budget) {
  require_defined(value);
  if (auto own = own_element(value, index, budget)) return *std::move(own);
  const std::string* name = as_text(index);
  if (name)
    if (auto own = python_attribute(value, *name, budget)) return *std::move(own);
  return make_undefined(type_name(value) + " has no element " +
                        (name ? excerpt(*name)
                         : is_whole(index)
                             ? std::to_string(as_integer(index, "an index"))
                             : "with the index that is given, of type " + type_name(index)));
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Budget& budget) {
  require_defined(value);
  const auto* sequence = value.get<SequencePtr>();
  if (const std::string* text = as_text(value)) {
    const auto count = static_cast<int64_t>(count_characters(*text, budget));
    return slice_of_text(value, slice_range(begin, end, step, count), budget);
  }
  if (!sequence || (*sequence)->kind > SequenceKind::range)
    throw DataError("found a slice of " + type_name(value) + ", expected one of a list or a str");
  const auto& elements = (*sequence)->elements;
  const auto count = static_cast<int64_t>(elements.size());
  std::vector<Value> taken;
  for_each_in(slice_range(begin, end, step, count), count, budget,
              [&](int64_t i) { taken.push_back(elements[static_cast<size_t>(i)]); });
  const SequenceKind kind =
      (*sequence)->kind == SequenceKind::group ? SequenceKind::tuple : (*sequence)->kind;
  return make_sequence(kind, std::move(taken), budget);
}

int64_t to_integer(const Value& number) {
  if (const double* real = number.get<double>()) {
    if (std::isnan(*real) || std::isinf(*real))
      throw DataError("found " + float_text(*real) + ", expected a number that an int can be");
    if (std::abs(*real) >= 0x1p63) refuse_size();
    return static_cast<int64_t>(*real);
  }
  return as_integer(number, "a number");
}

Value text_like(const Value& other, std::string text, Budget& budget) {
  Value made = make_text(std::move(text), budget);
  if (other.get<Text>() && other.get<Text>()->is_safe) std::get<Text>(made).is_safe = true;
  return made;
}

}  // namespace longshore::data::jinja
