"""The experimenter's problem (section 3 of the paper): filter, likelihood, beliefs."""
