"""The scheduler without a world around it: state, rules, services and the engine. No input or output at all."""
