// kill_and_resume() kills runs at random instants and resumes them.
#pragma once

namespace longshore::trainer {

// Starts a run, kills it and starts it again, until it ends, as often as it takes for so many
// kills; every end must be that of the undisturbed run, and every start find a whole checkpoint.
void kill_and_resume(int kills, unsigned seed);

}  // namespace longshore::trainer
