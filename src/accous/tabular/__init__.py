"""A model on people's own tables: preprocessing, classifier, history and place in the stream, in one folder."""
