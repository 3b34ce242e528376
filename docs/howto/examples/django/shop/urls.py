"""Two routes."""

from django.urls import path

from shop import views

urlpatterns = [
    path("schedules/<str:id>", views.show),
    path("schedules/<str:id>/<str:action>", views.control),
]
