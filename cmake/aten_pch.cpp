// Nothing: this unit exists so that the precompiled header has a target of its own.
