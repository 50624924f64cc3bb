// Nothing: this unit exists so that a precompiled header has a target of its own.
