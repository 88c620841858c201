"""An analysis in a file: settings, preparation, what was found."""
