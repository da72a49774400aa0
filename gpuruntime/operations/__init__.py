"""The use cases behind the API's routes: validate, replay, claim, create, release and delete."""
