// How matrices, those of linear layers, and biases of a model start, and which of them decay.
#pragma once

#include "longshore/models/ir/program.h"

namespace longshore::models {

inline const Weight kMatrix{.init = {Init::Kind::normal, 0.02}};  // its standard deviation
inline const Weight kLinear{.init = kMatrix.init, .inputs = InputAxis::last};
inline const Weight kBias{.decay = Decay::no, .init = {Init::Kind::zeros}};

}  // namespace longshore::models
