#include "longshore/trainer/planner/advice/plan_page.h"

#include <fmt/format.h>

#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/report/html_page.h"
#include "longshore/trainer/report/step_drawing.h"
#include "longshore/trainer/report/step_times.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;

std::string preformatted(const std::string& text) {
  return "<pre>" + html_escaped(text) + "</pre>\n";
}

std::string lanes(const PolicyPlan& plan) {
  if (!plan.estimate) return "";
  const std::vector<offload::Event> events = offload::events_of(plan.estimate->runs);
  const StepPicture step =
      step_picture(events, memory_samples(events, plan.plans.step, MemoryKind::device));
  return fmt::format("<h3>What each lane does in a step: {:.4g} s</h3>\n", step.seconds) +
         lanes_html(step) + "<div class=\"columns\">\n<div><h3>Phases</h3>\n" + phases_html(step) +
         "</div>\n<div><h3>Ops</h3>\n" + ops_html(step) + "</div>\n</div>\n";
}

std::string curves(const PolicyPlan& plan) {
  std::string html;
  for (MemoryKind kind : offload::kMemoryKinds) {
    const std::vector<MemorySample> samples = memory_by_kernel(plan.plans.step, kind);
    const MemoryPicture curve = memory_picture(samples, static_cast<double>(samples.size()));
    if (curve.most_bytes() > 0)
      html += fmt::format("<h3>{}, planned peak {}</h3>\n", offload::name(kind),
                          offload::bytes_text(plan.memory[kind].peak_bytes)) +
              memory_html(curve, 0, "over the kernels of a step in their order");
  }
  return html;
}

std::string section(const PolicyPlan& plan, const CostQuestion& question,
                    const std::string& advice) {
  return "<section>\n<h2>" + html_escaped(plan.policy) + "</h2>\n" +
         preformatted(details(plan, question)) + lanes(plan) + curves(plan) +
         (advice.empty() ? "" : "<h3>Advice</h3>\n" + preformatted(advice)) +
         folded("What happens to each value of a layer", preformatted(explanation(plan))) +
         folded("Config", preformatted(resolved_text(plan.config()))) + "</section>\n";
}

}  // namespace

std::string plan_page(const std::vector<PolicyPlan>& plans, const CostQuestion& question,
                      const std::vector<std::string>& advice) {
  const Config& config = plans.at(0).config();
  const std::string title =
      "Plan of " + config.config_file + (config.hardware.empty() ? "" : " on " + config.hardware);
  std::string body = "<h1>" + html_escaped(title) + "</h1>\n";
  std::vector<const PolicyPlan*> list;
  for (const PolicyPlan& plan : plans) list.push_back(&plan);
  if (plans.size() > 1) body += preformatted(table(list, question));
  for (size_t i = 0; i < plans.size(); ++i) body += section(plans[i], question, advice[i]);
  return html_page(title, body);
}

}  // namespace longshore::trainer
