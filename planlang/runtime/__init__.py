"""The torch side: styles as objects, applying them to a model."""
