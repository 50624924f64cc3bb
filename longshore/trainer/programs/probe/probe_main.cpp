#include "longshore/base/program.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/probe/probe.h"

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app(
      "Sends one batch through a model of a Hugging Face folder, in float32 unless told otherwise, "
      "and writes hidden states, logits, losses and gradients.",
      "probe");
  trainer::ProbeRequest request;
  app.add_option("--model", request.model, "a folder with config.json and weights")
      ->check(CLI::ExistingDirectory)
      ->required();
  app.add_option("--inputs", request.inputs, "a safetensors file with the batch")
      ->check(CLI::ExistingFile)
      ->required();
  app.add_option("--out", request.out, "the safetensors file to write")->required();
  app.add_option("--adapter", request.adapter,
                 "a folder with a LoRA adapter for the model, as peft writes it")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--gradients", request.gradients,
               "also the gradient of each parameter, or of the adapter's alone");
  app.add_option("key=value", request.overrides, "keys, as listed below");
  app.footer(trainer::probe_footer());
  return run_program(
      app, argc, argv,
      [&] {
        trainer::require_one_process("probe");
        require_place_for("--out", request.out);
        trainer::probe(request);
      },
      trainer::meant_key);
}
